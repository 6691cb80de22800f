/** A store in memory: a map of files. */

import type { Target } from "./target.ts";

/** A target that keeps its files in `files`, which other readers (zarrita) take as a store. */
export function memoryTarget(files: Map<string, Uint8Array> = new Map()): Target & {
  readonly files: Map<string, Uint8Array>;
} {
  return {
    name: "memory",
    files,
    async put(key, bytes) {
      files.set(key, bytes.slice());
    },
    async get(key) {
      return files.get(key) ?? null;
    },
  };
}
