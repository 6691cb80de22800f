import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  directoryScratch,
  directoryTarget,
  Engine,
  httpTarget,
  memoryTarget,
  zipTarget,
} from "../src/index.ts";
import { crc32 } from "../src/targets/zip.ts";
import { source, volumeOfCase } from "./formula.ts";

const OFF = { lo: [3, 5, 2], hi: [30, 44, 39], compression: "none" as const };

function engine() {
  const made = new Engine();
  made.add(volumeOfCase(source([37, 50, 41], [16, 16, 16])));
  return made;
}

async function plain() {
  const target = memoryTarget();
  await engine().materialize("v", target, OFF);
  return target.files;
}

const same = (a: Map<string, Uint8Array>, b: Map<string, Uint8Array>) => {
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [key, bytes] of a) expect([key, Buffer.compare(bytes, b.get(key)!)]).toEqual([key, 0]);
};

/** A folder as the File System Access API has it, in memory. */
class Folder {
  readonly kind = "directory";
  readonly entries = new Map<string, Folder | Uint8Array>();
  readonly name: string;
  readonly room: { files: number; then?: string };
  constructor(name: string, room: Folder["room"] = { files: Number.POSITIVE_INFINITY }) {
    this.name = name;
    this.room = room;
  }
  async getDirectoryHandle(name: string, options?: { create?: boolean }) {
    if (!this.entries.has(name) && options?.create) this.entries.set(name, new Folder(name, this.room));
    const found = this.entries.get(name);
    if (found instanceof Folder) return found;
    throw new DOMException("none", found ? "TypeMismatchError" : "NotFoundError");
  }
  async getFileHandle(name: string, options?: { create?: boolean }) {
    const found = this.entries.get(name);
    if (!found && !options?.create) throw new DOMException("none", "NotFoundError");
    return {
      getFile: async () => new Blob([this.entries.get(name) as Uint8Array<ArrayBuffer>]),
      createWritable: async () => {
        let held = new Uint8Array(0);
        return {
          write: async (bytes: Uint8Array) => {
            if (this.room.files-- <= 0) throw new DOMException("x", this.room.then ?? "QuotaExceededError");
            held = new Uint8Array(bytes);
          },
          abort: async () => {},
          close: async () => void this.entries.set(name, held),
        };
      },
    };
  }
  async removeEntry(name: string) {
    this.entries.delete(name);
  }
  files(under = ""): Map<string, Uint8Array> {
    return new Map(
      [...this.entries].flatMap(([name, entry]): [string, Uint8Array][] =>
        entry instanceof Folder ? [...entry.files(`${under}${name}/`)] : [[under + name, entry]],
      ),
    );
  }
  get handle() {
    return this as unknown as FileSystemDirectoryHandle;
  }
}

describe("a folder", () => {
  test("holds the files that a map does", async () => {
    const folder = new Folder("out");
    await engine().materialize("v", directoryTarget(folder.handle), OFF);
    same(folder.files(), await plain());
  });

  test.each([
    ["QuotaExceededError", "the disk, or what the browser may use of it, is full"],
    ["NotAllowedError", "the permission to write to the folder was withdrawn"],
    ["NotFoundError", "the folder is gone"],
    ["NoModificationAllowedError", "the folder cannot be written to"],
  ])("%s is said in words, and what was written is kept", async (then, words) => {
    const folder = new Folder("out", { files: 9, then });
    const run = engine().materialize("v", directoryTarget(folder.handle), OFF);
    await expect(run).rejects.toThrow(new RegExp(`^writing 0/c/\\S+ to out: ${words} \\(x\\)$`));
    expect(folder.files().size).toBe(9);
    expect(new TextDecoder().decode(folder.files().get("zarr.json"))).toContain("chunkloom_unfinished");
  });

  test("is scratch for partial chunks", async () => {
    const folder = new Folder("scratch");
    const scratch = directoryScratch(folder.handle);
    await scratch.write("1-2-3", new Uint8Array([1, 2]));
    expect([...(await scratch.read("1-2-3"))]).toEqual([1, 2]);
    await scratch.remove("1-2-3");
    expect(folder.entries.size).toBe(0);
  });
});

describe("a zip", () => {
  const bytesOf = async (stream: ReadableStream<Uint8Array>) =>
    new Uint8Array(await new Response(stream).arrayBuffer());

  test("unpacked by another program holds the files that a map does", async () => {
    const { target, stream } = zipTarget("v.zip");
    const [bytes] = await Promise.all([bytesOf(stream), engine().materialize("v", target, OFF)]);
    const folder = await mkdtemp(join(tmpdir(), "zip-"));
    await writeFile(join(folder, "v.zip"), bytes);
    execFileSync("python3", ["-m", "zipfile", "-e", "v.zip", "out"], { cwd: folder });
    for (const [key, want] of await plain()) {
      expect([key, Buffer.compare(await readFile(join(folder, "out", key)), want)]).toEqual([key, 0]);
    }
  });

  test("waits for its reader: nothing piles up", async () => {
    const { target, stream } = zipTarget("v.zip");
    let most = 0;
    const run = engine().materialize("v", target, {
      ...OFF,
      onProgress: (p) => (most = Math.max(most, p.written)),
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(most).toBeLessThanOrEqual(1);
    await Promise.all([bytesOf(stream), run]);
  });

  test("of a run that stopped is no file", async () => {
    const { target, stream } = zipTarget("v.zip");
    const controller = new AbortController();
    const run = engine().materialize("v", target, {
      ...OFF,
      signal: controller.signal,
      onProgress: (p) => p.computed > 10 && controller.abort(new Error("enough")),
    });
    const [read, done] = await Promise.allSettled([bytesOf(stream), run]);
    expect([read.status, done.status]).toEqual(["rejected", "rejected"]);
  });

  test("whose reader went away does not hold up an abort", async () => {
    const { target } = zipTarget("v.zip");
    const controller = new AbortController();
    const run = engine().materialize("v", target, { ...OFF, signal: controller.signal });
    setTimeout(() => controller.abort(new Error("enough")), 20);
    await expect(run).rejects.toThrow("enough");
  });

  test("has the CRC that zip has", () => {
    expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
  });
});

describe("HTTP PUT", () => {
  async function server(status: (key: string, count: number) => number) {
    const files = new Map<string, Uint8Array>();
    const counts = new Map<string, number>();
    const made = createServer((request, response) => {
      const key = decodeURIComponent(request.url!.slice("/store/".length));
      if (request.method === "GET") {
        response.writeHead(files.has(key) ? 200 : 404).end(files.get(key));
        return;
      }
      const parts: Buffer[] = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => {
        counts.set(key, (counts.get(key) ?? 0) + 1);
        const code = status(key, counts.get(key)!);
        if (code < 300) files.set(key, new Uint8Array(Buffer.concat(parts)));
        response.writeHead(code).end();
      });
    });
    await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(made.address() as AddressInfo).port}/store`;
    const close = () => {
      made.closeAllConnections();
      made.close();
    };
    return { files, url, close };
  }

  test("puts the files that a map has, trying again where the host is busy", async () => {
    const { files, url, close } = await server((key, count) =>
      key.endsWith("1/1/1") && count === 1 ? 503 : 201,
    );
    await engine().materialize("v", httpTarget(url), OFF);
    same(files, await plain());
    close();
  });

  test("says what the host answered", async () => {
    const { url, close } = await server((key) => (key.includes("/c/") ? 403 : 201));
    await expect(engine().materialize("v", httpTarget(url), OFF)).rejects.toThrow(
      /writing 0\/c\/\S+ to http\S+: the host answered HTTP 403/,
    );
    close();
  });
});
