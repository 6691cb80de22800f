/** Reading boxes of a volume from its chunks, with a rule for what lies outside the level. */

import { asBytes, type Dtype, type Typed, widthOf, zeros } from "./asread.ts";
import { AXES, type Box, shapeOf, type Vec3, vec3, volumeOf } from "./geometry.ts";
import type { Volume } from "./volume.ts";

/** Values of a box: C order, channel axes first. */
export interface Block {
  readonly data: Typed;
  readonly dtype: Dtype;
  readonly channels: readonly number[];
  readonly shape: Vec3;
}

/**
 * What stands outside the level: 0; the level mirrored at its faces, edge voxel twice (`d c b a | a b c d`, SciPy's
 * "reflect"); or its edge voxel repeated.
 */
export type Boundary = "zero" | "reflect" | "edge";

/** The voxels of a box inside the level. Chunks are asked for together. */
export async function readBox(volume: Volume, level: number, box: Box, signal?: AbortSignal): Promise<Block> {
  const { chunk } = volume.levels[level];
  const shape = shapeOf(box);
  const out = zeros(volume.dtype, volumeOf(volume.channels) * volumeOf(shape));
  const into = asBytes(out);
  const first = vec3((a) => Math.floor(box.lo[a] / chunk[a]));
  const past = vec3((a) => Math.ceil(box.hi[a] / chunk[a]));
  const asked: Promise<void>[] = [];
  for (let z = first[0]; z < past[0]; z++) {
    for (let y = first[1]; y < past[1]; y++) {
      for (let x = first[2]; x < past[2]; x++) {
        const index: Vec3 = [z, y, x];
        asked.push(
          volume.chunk(level, index, signal).then((bytes) => {
            if (bytes) copyChunk(volume, level, index, bytes, box, into);
          }),
        );
      }
    }
  }
  await Promise.all(asked);
  return { data: out, dtype: volume.dtype, channels: volume.channels, shape };
}

function copyChunk(
  volume: Volume,
  level: number,
  index: Vec3,
  bytes: Uint8Array,
  box: Box,
  into: Uint8Array,
): void {
  const { chunk } = volume.levels[level];
  const width = widthOf(volume.dtype);
  const shape = shapeOf(box);
  const start = vec3((a) => index[a] * chunk[a]);
  const lo = vec3((a) => Math.max(box.lo[a], start[a]));
  const hi = vec3((a) => Math.min(box.hi[a], start[a] + chunk[a]));
  const run = (hi[2] - lo[2]) * width;
  for (let p = 0; p < volumeOf(volume.channels); p++) {
    for (let z = lo[0]; z < hi[0]; z++) {
      for (let y = lo[1]; y < hi[1]; y++) {
        const from =
          (((p * chunk[0] + z - start[0]) * chunk[1] + y - start[1]) * chunk[2] + lo[2] - start[2]) * width;
        const to =
          (((p * shape[0] + z - box.lo[0]) * shape[1] + y - box.lo[1]) * shape[2] + lo[2] - box.lo[2]) *
          width;
        into.set(bytes.subarray(from, from + run), to);
      }
    }
  }
}

/** The voxel of the level that stands at place `i` of an axis of `n` voxels; -1 where it is 0. */
function sourceOf(i: number, n: number, boundary: Boundary): number {
  if (i >= 0 && i < n) return i;
  if (boundary === "zero") return -1;
  if (boundary === "edge") return i < 0 ? 0 : n - 1;
  const period = 2 * n;
  const at = ((i % period) + period) % period;
  return at < n ? at : period - 1 - at;
}

/** The voxels of any box, what lies outside the level filled by the rule. A box wholly outside is no error. */
export async function readPadded(
  volume: Volume,
  level: number,
  box: Box,
  boundary: Boundary,
  signal?: AbortSignal,
): Promise<Block> {
  const { shape: whole } = volume.levels[level];
  if (AXES.every((a) => box.lo[a] >= 0 && box.hi[a] <= whole[a])) return readBox(volume, level, box, signal);
  const shape = shapeOf(box);
  const maps = AXES.map((a) =>
    Int32Array.from({ length: shape[a] }, (_, i) => sourceOf(box.lo[a] + i, whole[a], boundary)),
  );
  const found = maps.map((map) => map.filter((i) => i >= 0));
  const out = zeros(volume.dtype, volumeOf(volume.channels) * volumeOf(shape));
  const padded = { data: out, dtype: volume.dtype, channels: volume.channels, shape };
  if (found.some((map) => map.length === 0)) return padded;
  const lo = vec3((a) => found[a].reduce((m, i) => Math.min(m, i), Number.POSITIVE_INFINITY));
  const hi = vec3((a) => found[a].reduce((m, i) => Math.max(m, i), -1) + 1);
  const inner = await readBox(volume, level, { lo, hi }, signal);
  const [, ny, nx] = inner.shape;
  // The stretch of a row that lies inside the level is copied at once.
  const begin = Math.min(shape[2], Math.max(0, -box.lo[2]));
  const end = Math.max(begin, Math.min(shape[2], whole[2] - box.lo[2]));
  let at = 0;
  const from = inner.data;
  const to = out as { [i: number]: number | bigint };
  for (let p = 0; p < volumeOf(volume.channels); p++) {
    for (let z = 0; z < shape[0]; z++) {
      for (let y = 0; y < shape[1]; y++) {
        const [sz, sy] = [maps[0][z], maps[1][y]];
        if (sz < 0 || sy < 0) {
          at += shape[2];
          continue;
        }
        const row = ((p * inner.shape[0] + sz - lo[0]) * ny + sy - lo[1]) * nx - lo[2];
        const pick = (x: number) => {
          const sx = maps[2][x];
          if (sx >= 0) to[at + x] = from[row + sx];
        };
        for (let x = 0; x < begin; x++) pick(x);
        (out as Uint8Array).set(
          (from as Uint8Array).subarray(row + box.lo[2] + begin, row + box.lo[2] + end),
          at + begin,
        );
        for (let x = end; x < shape[2]; x++) pick(x);
        at += shape[2];
      }
    }
  }
  return padded;
}

/** A block's values as a full-size chunk, 0 past its end. */
export function chunkOf(block: Block, chunk: Vec3): Uint8Array {
  if (AXES.every((a) => block.shape[a] === chunk[a])) return asBytes(block.data);
  const width = widthOf(block.dtype);
  const out = new Uint8Array(volumeOf(block.channels) * volumeOf(chunk) * width);
  const from = asBytes(block.data);
  const run = block.shape[2] * width;
  let at = 0;
  for (let p = 0; p < volumeOf(block.channels); p++) {
    for (let z = 0; z < block.shape[0]; z++) {
      for (let y = 0; y < block.shape[1]; y++, at += run) {
        out.set(from.subarray(at, at + run), ((p * chunk[0] + z) * chunk[1] + y) * chunk[2] * width);
      }
    }
  }
  return out;
}
