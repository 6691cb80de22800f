/**
 * Chunks of a box, stitched from the served chunks it covers: each served chunk is copied, once, into every chunk
 * of the array it overlaps. A chunk of the array is complete when the last of its parts is in, and is then let go.
 *
 * Knows nothing of where served chunks come from or where complete ones go.
 */

import { isZero, widthOf } from "./asread.ts";
import { AXES, type Vec3, vec3, volumeOf } from "./geometry.ts";
import { chunkBytes, type Region } from "./region.ts";

/** A chunk of the array with all its parts in. `bytes` is null where every value is 0. */
export interface Completed {
  readonly index: Vec3;
  readonly bytes: Uint8Array | null;
}

/** Takes served chunks in any order, gives back the chunks of the array that each one completes. */
export interface Stitcher {
  /** Copies a served chunk (null: all zeros) to where it belongs; returns what it completed, in C order. */
  add(index: Vec3, bytes: Uint8Array | null): Completed[];
  /** Chunks of the array that have been started and are not complete. */
  readonly held: number;
  /** Bytes of their buffers. A chunk with only zeros so far has none. */
  readonly heldBytes: number;
  /** The most `held` has been. */
  readonly mostHeld: number;
}

/** One overlap of a served chunk with a chunk of the array, in voxels of each. */
export interface Overlap {
  readonly index: Vec3;
  readonly from: Vec3;
  readonly to: Vec3;
  readonly shape: Vec3;
}

/** The chunks of the array that a served chunk overlaps, up to two per axis, in C order. */
export function overlaps(region: Region, served: Vec3): Overlap[] {
  const perAxis = AXES.map((a) => {
    const c = region.chunk[a];
    const begin = Math.max(region.lo[a], served[a] * c);
    const end = Math.min(region.hi[a], (served[a] + 1) * c);
    const first = Math.floor((begin - region.array.lo[a]) / c);
    const last = Math.floor((end - 1 - region.array.lo[a]) / c);
    const found = [];
    for (let i = first; i <= last; i++) {
      const start = region.array.lo[a] + i * c;
      const lo = Math.max(begin, start);
      const hi = Math.min(end, start + c);
      found.push({ i, from: lo - served[a] * c, to: lo - start, n: hi - lo });
    }
    return found;
  });
  const all: Overlap[] = [];
  for (const z of perAxis[0]) {
    for (const y of perAxis[1]) {
      for (const x of perAxis[2]) {
        all.push({
          index: [z.i, y.i, x.i],
          from: [z.from, y.from, x.from],
          to: [z.to, y.to, x.to],
          shape: [z.n, y.n, x.n],
        });
      }
    }
  }
  return all;
}

/** How many served chunks a chunk of the array is made of. */
export function partsOf(region: Region, index: Vec3): number {
  return volumeOf(
    AXES.map((a) => {
      const c = region.chunk[a];
      const start = Math.max(region.lo[a], region.array.lo[a] + index[a] * c);
      const end = Math.min(region.hi[a], region.array.lo[a] + (index[a] + 1) * c);
      return Math.floor((end - 1) / c) - Math.floor(start / c) + 1;
    }),
  );
}

/**
 * Whether a chunk of the array is exactly one served chunk: the same voxels and, where it overhangs the array, the
 * level ends there too. Such a chunk is written as it was served, overhang included.
 */
export function passesThrough(region: Region, index: Vec3): boolean {
  return AXES.every((a) => {
    const c = region.chunk[a];
    const start = region.array.lo[a] + index[a] * c;
    return start % c === 0 && (start + c <= region.hi[a] || region.hi[a] === region.levelShape[a]);
  });
}

/** The served chunks that make up a chunk of the array, as a half-open range of indices. */
export function sourcesOf(region: Region, index: Vec3): { lo: Vec3; hi: Vec3 } {
  const begin = vec3((a) => region.array.lo[a] + index[a] * region.chunk[a]);
  return {
    lo: vec3((a) => Math.floor(Math.max(region.lo[a], begin[a]) / region.chunk[a])),
    hi: vec3(
      (a) => Math.floor((Math.min(region.hi[a], begin[a] + region.chunk[a]) - 1) / region.chunk[a]) + 1,
    ),
  };
}

/** Copies one overlap, a row at a time (whole planes where the rows join). Both are full chunks. */
export function copyOverlap(region: Region, o: Overlap, source: Uint8Array, into: Uint8Array): void {
  const width = widthOf(region.volume.dtype);
  const [cz, cy, cx] = region.chunk;
  const [nz, ny, nx] = o.shape;
  const wholeRows = nx === cx;
  const runs = wholeRows ? 1 : ny;
  const run = (wholeRows ? ny * nx : nx) * width;
  const planes = volumeOf(region.volume.channels);
  for (let p = 0; p < planes; p++) {
    for (let z = 0; z < nz; z++) {
      for (let y = 0; y < runs; y++) {
        const from = (((p * cz + o.from[0] + z) * cy + o.from[1] + y) * cx + o.from[2]) * width;
        const to = (((p * cz + o.to[0] + z) * cy + o.to[1] + y) * cx + o.to[2]) * width;
        into.set(source.subarray(from, from + run), to);
      }
    }
  }
}

interface Part {
  left: number;
  buffer: Uint8Array | null;
}

/** A stitcher of a region, everything in memory. `spill.ts` has the one that keeps to a budget. */
export function stitcher(region: Region): Stitcher {
  const size = chunkBytes(region);
  const parts = new Map<string, Part>();
  let heldBytes = 0;
  let most = 0;
  return {
    get held() {
      return parts.size;
    },
    get heldBytes() {
      return heldBytes;
    },
    get mostHeld() {
      return most;
    },
    add(index, bytes) {
      const full = bytes !== null && !isZero(bytes) ? bytes : null;
      const completed: Completed[] = [];
      for (const overlap of overlaps(region, index)) {
        if (passesThrough(region, overlap.index)) {
          completed.push({ index: overlap.index, bytes: full });
          continue;
        }
        const key = overlap.index.join();
        const part = parts.get(key) ?? { left: partsOf(region, overlap.index), buffer: null };
        if (full && !part.buffer) {
          part.buffer = new Uint8Array(size);
          heldBytes += size;
        }
        if (full && part.buffer) copyOverlap(region, overlap, full, part.buffer);
        part.left -= 1;
        if (part.left > 0) {
          parts.set(key, part);
        } else {
          parts.delete(key);
          if (part.buffer) heldBytes -= size;
          // A part may bring only its zeros: what is empty is told by the chunk itself.
          const empty = part.buffer === null || isZero(part.buffer);
          completed.push({ index: overlap.index, bytes: empty ? null : part.buffer });
        }
        most = Math.max(most, parts.size);
      }
      return completed;
    },
  };
}
