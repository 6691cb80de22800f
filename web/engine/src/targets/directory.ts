/** A store in a folder that the page was given (File System Access), or in OPFS; and scratch beside it. */

import type { Scratch } from "../spill.ts";
import type { Target } from "./target.ts";

async function folderOf(
  root: FileSystemDirectoryHandle,
  parts: readonly string[],
): Promise<FileSystemDirectoryHandle> {
  let at = root;
  for (const part of parts) at = await at.getDirectoryHandle(part, { create: true });
  return at;
}

/** Writes one file. A writable stream replaces the file when it is closed: it is there whole or not at all. */
async function write(folder: FileSystemDirectoryHandle, name: string, bytes: Uint8Array): Promise<void> {
  const file = await folder.getFileHandle(name, { create: true });
  const stream = await file.createWritable();
  try {
    await stream.write(bytes as Uint8Array<ArrayBuffer>);
  } catch (thrown) {
    await stream.abort().catch(() => {});
    throw thrown;
  }
  await stream.close();
}

function explained(thrown: unknown): Error {
  const { name, message } = thrown as Error;
  const words: Record<string, string> = {
    QuotaExceededError: "the disk, or what the browser may use of it, is full",
    NotAllowedError: "the permission to write to the folder was withdrawn",
    NotFoundError: "the folder is gone",
    NoModificationAllowedError: "the folder cannot be written to",
  };
  return new Error(words[name] ? `${words[name]} (${message})` : message, { cause: thrown });
}

/** A target in a folder. What was written stays when a run stops. */
export function directoryTarget(root: FileSystemDirectoryHandle, name = root.name): Target {
  const folders = new Map<string, Promise<FileSystemDirectoryHandle>>();
  const folder = (parts: readonly string[]) => {
    const key = parts.join("/");
    let found = folders.get(key);
    if (!found) {
      found = folderOf(root, parts);
      found.catch(() => folders.delete(key));
      folders.set(key, found);
    }
    return found;
  };
  return {
    name,
    async put(key, bytes) {
      const parts = key.split("/");
      try {
        await write(await folder(parts.slice(0, -1)), parts[parts.length - 1], bytes);
      } catch (thrown) {
        throw explained(thrown);
      }
    },
    async get(key) {
      const parts = key.split("/");
      try {
        let at = root;
        for (const part of parts.slice(0, -1)) at = await at.getDirectoryHandle(part);
        const file = await (await at.getFileHandle(parts[parts.length - 1])).getFile();
        return new Uint8Array(await file.arrayBuffer());
      } catch (thrown) {
        if (["NotFoundError", "TypeMismatchError"].includes((thrown as Error).name)) return null;
        throw explained(thrown);
      }
    },
  };
}

/** A folder of the origin private file system. */
export async function opfsFolder(path: string): Promise<FileSystemDirectoryHandle> {
  return folderOf(await navigator.storage.getDirectory(), path.split("/").filter(Boolean));
}

/** Scratch in a folder, best one of OPFS: partial chunks wait there. */
export function directoryScratch(folder: FileSystemDirectoryHandle): Scratch {
  return {
    write: (key, bytes) => write(folder, key, bytes),
    async read(key) {
      const file = await (await folder.getFileHandle(key)).getFile();
      return new Uint8Array(await file.arrayBuffer());
    },
    remove: (key) => folder.removeEntry(key),
  };
}
