/**
 * Stitching within a memory budget: partial chunks that are not needed next wait on scratch (OPFS in a page, files
 * in Node). The walk is known, so the one put away is always the one whose next part comes last.
 */

import { isZero } from "./asread.ts";
import type { Vec3 } from "./geometry.ts";
import { chunkBytes, type Region, walkOrder } from "./region.ts";
import { type Completed, copyOverlap, overlaps, partsOf, passesThrough, sourcesOf } from "./stitch.ts";

/** Where partial chunks wait. Keys are short names without a separator. */
export interface Scratch {
  write(key: string, bytes: Uint8Array): Promise<void>;
  read(key: string): Promise<Uint8Array>;
  remove(key: string): Promise<void>;
}

/** A stitcher that keeps to a budget. Served chunks are added one at a time; a second `add` waits for the first. */
export interface SpillingStitcher {
  /** Adds a served chunk; `complete` is awaited for each chunk it completes, in C order. */
  add(index: Vec3, bytes: Uint8Array | null, complete: (chunk: Completed) => Promise<void>): Promise<void>;
  readonly held: number;
  readonly heldBytes: number;
  /** The most bytes of partial chunks that were in memory at once. */
  readonly mostBytes: number;
  /** How many times a partial chunk was put away. */
  readonly spilled: number;
  /** Removes what is left on scratch. */
  clear(): Promise<void>;
}

interface Part {
  readonly index: Vec3;
  left: number;
  buffer: Uint8Array | null;
  stored: boolean;
}

/** A stitcher whose buffers take at most `budget` bytes (one chunk at least). */
export function spillingStitcher(region: Region, budget: number, scratch: Scratch): SpillingStitcher {
  const size = chunkBytes(region);
  const order = walkOrder(region);
  const parts = new Map<string, Part>();
  let inMemory = 0;
  let most = 0;
  let spilled = 0;
  let turn: Promise<void> = Promise.resolve();

  const rank = (index: Vec3) =>
    order.reduce(
      (at, a) => at * (region.served.hi[a] - region.served.lo[a]) + index[a] - region.served.lo[a],
      0,
    );

  /** The place in the walk of the next part of a chunk, after `now`. */
  function nextUse(part: Part, now: number): number {
    const { lo, hi } = sourcesOf(region, part.index);
    let next = Number.POSITIVE_INFINITY;
    for (let z = lo[0]; z < hi[0]; z++) {
      for (let y = lo[1]; y < hi[1]; y++) {
        for (let x = lo[2]; x < hi[2]; x++) {
          const at = rank([z, y, x]);
          if (at > now && at < next) next = at;
        }
      }
    }
    return next;
  }

  async function makeRoom(now: number): Promise<void> {
    while (inMemory > 0 && inMemory + size > budget) {
      let last: Part | undefined;
      let lastUse = -1;
      for (const part of parts.values()) {
        if (!part.buffer) continue;
        const use = nextUse(part, now);
        if (use > lastUse) {
          last = part;
          lastUse = use;
        }
      }
      if (!last?.buffer) return;
      await scratch.write(last.index.join("-"), last.buffer);
      last.buffer = null;
      last.stored = true;
      inMemory -= size;
      spilled += 1;
    }
  }

  async function bufferOf(part: Part, now: number): Promise<Uint8Array> {
    if (part.buffer) return part.buffer;
    await makeRoom(now);
    if (part.stored) {
      const name = part.index.join("-");
      part.buffer = await scratch.read(name);
      await scratch.remove(name);
      part.stored = false;
    } else {
      part.buffer = new Uint8Array(size);
    }
    inMemory += size;
    most = Math.max(most, inMemory);
    return part.buffer;
  }

  async function addOne(
    index: Vec3,
    bytes: Uint8Array | null,
    complete: (chunk: Completed) => Promise<void>,
  ): Promise<void> {
    const full = bytes !== null && !isZero(bytes) ? bytes : null;
    const now = rank(index);
    for (const overlap of overlaps(region, index)) {
      if (passesThrough(region, overlap.index)) {
        await complete({ index: overlap.index, bytes: full });
        continue;
      }
      const key = overlap.index.join();
      const part: Part = parts.get(key) ?? {
        index: overlap.index,
        left: partsOf(region, overlap.index),
        buffer: null,
        stored: false,
      };
      if (full) copyOverlap(region, overlap, full, await bufferOf(part, now));
      part.left -= 1;
      parts.set(key, part);
      if (part.left > 0) continue;
      const buffer = part.stored ? await bufferOf(part, now) : part.buffer;
      parts.delete(key);
      await complete({ index: overlap.index, bytes: buffer === null || isZero(buffer) ? null : buffer });
      if (buffer) inMemory -= size;
    }
  }

  return {
    get held() {
      return parts.size;
    },
    get heldBytes() {
      return inMemory;
    },
    get mostBytes() {
      return most;
    },
    get spilled() {
      return spilled;
    },
    add(index, bytes, complete) {
      const mine = turn.then(() => addOne(index, bytes, complete));
      turn = mine.catch(() => {});
      return mine;
    },
    async clear() {
      await turn;
      for (const part of parts.values()) {
        if (part.stored) await scratch.remove(part.index.join("-"));
      }
      parts.clear();
    },
  };
}

/** Scratch in memory, for tests and for places without a file system. */
export function memoryScratch(): Scratch & { readonly files: Map<string, Uint8Array> } {
  const files = new Map<string, Uint8Array>();
  return {
    files,
    async write(key, bytes) {
      files.set(key, bytes.slice());
    },
    async read(key) {
      const found = files.get(key);
      if (!found) throw new Error(`scratch has no ${key}`);
      return found;
    },
    async remove(key) {
      files.delete(key);
    },
  };
}
