/** Folders of this machine as stores and targets, for tests. */

import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ReadStore } from "../src/sources/store.ts";
import type { Scratch } from "../src/spill.ts";

/** A store of a folder. */
export function folderStore(folder: string): ReadStore {
  const absent = (thrown: NodeJS.ErrnoException) => {
    if (thrown.code && ["ENOENT", "EISDIR", "ENOTDIR"].includes(thrown.code)) return undefined;
    throw thrown;
  };
  return {
    name: folder,
    async get(key) {
      const bytes = await readFile(join(folder, key)).catch(absent);
      return bytes && new Uint8Array(bytes);
    },
    async range(key, part) {
      const bytes = await readFile(join(folder, key)).catch(absent);
      if (!bytes) return undefined;
      const whole = new Uint8Array(bytes);
      return "suffix" in part
        ? whole.slice(-part.suffix)
        : whole.slice(part.offset, part.offset + part.length);
    },
  };
}

/** Scratch in a folder. */
export function folderScratch(folder: string): Scratch {
  return {
    async write(key, bytes) {
      await mkdir(folder, { recursive: true });
      await writeFile(join(folder, key), bytes);
    },
    async read(key) {
      return new Uint8Array(await readFile(join(folder, key)));
    },
    remove: (key) => rm(join(folder, key)),
  };
}

/** Writes files, each to a temporary name first. */
export async function writeFiles(folder: string, files: ReadonlyMap<string, Uint8Array>): Promise<void> {
  for (const [key, bytes] of files) {
    const path = join(folder, key);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.part`, bytes);
    await rename(`${path}.part`, path);
  }
}
