/**
 * Statistics of a whole level from a bounded, repeatable sample of it. Where to sample is a pure function of the
 * level's shape; every rule is the Python engine's, so both freeze the same numbers.
 */

import { MetadataError } from "./errors.ts";
import type { Box, Vec3 } from "./geometry.ts";
import { vec3, volumeOf } from "./geometry.ts";

const SAMPLE_BYTES = 64 * 1024 * 1024;
const SAMPLE_EDGE = 64;
const SIGNIFICANT_DIGITS = 9;

/** The finalizer of MurmurHash3 (32 bits) on `k + 1`. */
function hash32(k: number): number {
  let h = (k + 1) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/**
 * Boxes whose voxels stand for a whole level. A level of at most 64 MB is one box; of a larger one, as many cubes of
 * 64 voxels as fit into 64 MB, one from each of as many equal stretches of their C order, chosen by a fixed hash.
 * `itemsize` is the bytes of a voxel, times the channels.
 */
export function sampleBoxes(shape: Vec3, itemsize: number): Box[] {
  if (volumeOf(shape) * itemsize <= SAMPLE_BYTES) return [{ lo: [0, 0, 0], hi: shape }];
  const grid = vec3((a) => Math.ceil(shape[a] / SAMPLE_EDGE));
  const blocks = volumeOf(grid);
  const wanted = Math.max(1, Math.min(blocks, Math.floor(SAMPLE_BYTES / (SAMPLE_EDGE ** 3 * itemsize))));
  return Array.from({ length: wanted }, (_, k) => {
    const first = Math.floor((k * blocks) / wanted);
    const past = Math.floor(((k + 1) * blocks) / wanted);
    let index = first + (hash32(k) % (past - first));
    const lo = [0, 0, 0] as [number, number, number];
    for (const a of [2, 1, 0]) {
      lo[a] = (index % grid[a]) * SAMPLE_EDGE;
      index = Math.floor(index / grid[a]);
    }
    return { lo, hi: vec3((a) => Math.min(lo[a] + SAMPLE_EDGE, shape[a])) };
  });
}

function finite(blocks: readonly ArrayLike<number>[]): Float64Array {
  const all = new Float64Array(blocks.reduce((n, b) => n + b.length, 0));
  let n = 0;
  for (const block of blocks) {
    for (let i = 0; i < block.length; i++) if (Number.isFinite(block[i])) all[n++] = block[i];
  }
  if (n === 0) throw new MetadataError("statistics: the sample holds no finite value");
  return all.subarray(0, n);
}

/** A sum in pairs, whose error stays near that of one addition. */
function sum(values: Float64Array, of: (v: number) => number): number {
  if (values.length <= 128) {
    let total = 0;
    for (const v of values) total += of(v);
    return total;
  }
  const middle = values.length >> 1;
  return sum(values.subarray(0, middle), of) + sum(values.subarray(middle), of);
}

const rounded = (value: number) => Number(value.toPrecision(SIGNIFICANT_DIGITS));

/** Mean and population standard deviation of the finite values, to 9 digits. A constant sample deviates by 1. */
export function meanStd(blocks: readonly ArrayLike<number>[]): { mean: number; std: number } {
  const values = finite(blocks);
  const mean = sum(values, (v) => v) / values.length;
  const variance = sum(values, (v) => (v - mean) ** 2) / values.length;
  return { mean: rounded(mean), std: rounded(Math.sqrt(variance)) || 1 };
}

/** Two percentiles of the finite values, linear between neighbours, to 9 digits; never equal. */
export function percentiles(
  blocks: readonly ArrayLike<number>[],
  low: number,
  high: number,
): { low: number; high: number } {
  const ordered = finite(blocks).slice().sort();
  const at = (percent: number) => {
    const rank = (percent / 100) * (ordered.length - 1);
    const [below, above] = [ordered[Math.floor(rank)], ordered[Math.ceil(rank)]];
    return rounded(below + (above - below) * (rank - Math.floor(rank)));
  };
  const [first, last] = [at(low), at(high)];
  return last > first ? { low: first, high: last } : { low: first, high: first + 1 };
}
