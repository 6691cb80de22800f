/**
 * What a materialize covers: which voxels, which served chunks, which chunks of the written array, and the order
 * to walk them in. Pure arithmetic; knows nothing of values or stores.
 */

import { widthOf } from "./asread.ts";
import { BoxError, OptionError } from "./errors.ts";
import { AXES, type Box, type Vec3, vec3, volumeOf } from "./geometry.ts";
import { levelOf, type VolumeInfo } from "./volume.ts";

/** "box": the array is exactly the box. "level": the array has the level's shape, with the box's chunks in it. */
export type Extent = "box" | "level";

/** The voxels, chunks and array of one materialize. All triples are z, y, x. */
export interface Region {
  readonly volume: VolumeInfo;
  readonly level: number;
  readonly extent: Extent;
  /** The chunk shape, of the served level and of the written array. */
  readonly chunk: Vec3;
  readonly levelShape: Vec3;
  /** The voxels written: the box ("box"), or the box rounded out to whole chunks ("level"). */
  readonly lo: Vec3;
  readonly hi: Vec3;
  /** The served chunks that the box covers, a half-open range of indices. */
  readonly served: Box;
  /** The written array: its shape, the voxel of the level that its voxel 0 is, its chunks written (half-open). */
  readonly array: { readonly shape: Vec3; readonly lo: Vec3; readonly chunks: Box };
}

/**
 * A box clipped to the level and rounded out to whole voxels. Absent sides are the level's.
 *
 * Throws `BoxError` where no voxel is left.
 */
export function voxelBox(shape: Vec3, lo: readonly number[] = [0, 0, 0], hi: readonly number[] = shape): Box {
  for (const [name, side] of [
    ["lo", lo],
    ["hi", hi],
  ] as const) {
    if (side.length !== 3 || side.some((n) => typeof n !== "number" || Number.isNaN(n))) {
      throw new BoxError(`${name} is ${JSON.stringify(side)}; expected three numbers of voxels (z, y, x)`);
    }
  }
  const box = {
    lo: vec3((a) => Math.floor(Math.max(0, lo[a]))),
    hi: vec3((a) => Math.ceil(Math.min(shape[a], hi[a]))),
  };
  for (const a of AXES) {
    if (box.hi[a] <= box.lo[a]) {
      throw new BoxError(
        `box [${lo.join(", ")}] to [${hi.join(", ")}] is outside the level or empty along ${"zyx"[a]}: ` +
          `the level is [0, 0, 0] to [${shape.join(", ")}] voxels; choose a box that overlaps it`,
      );
    }
  }
  return box;
}

/** The chunks that a box of voxels touches, as a half-open range of indices. The box is taken as `voxelBox` does. */
export function chunkRange(
  level: { readonly shape: Vec3; readonly chunk: Vec3 },
  lo?: readonly number[],
  hi?: readonly number[],
): Box {
  const box = voxelBox(level.shape, lo, hi);
  return {
    lo: vec3((a) => Math.floor(box.lo[a] / level.chunk[a])),
    hi: vec3((a) => Math.ceil(box.hi[a] / level.chunk[a])),
  };
}

/** Every index of a half-open range, the last axis of `order` running fastest. C order unless told. */
export function* chunkIndices(lo: Vec3, hi: Vec3, order: readonly number[] = AXES): Generator<Vec3> {
  const [p, q, r] = order;
  const at: [number, number, number] = [0, 0, 0];
  for (at[p] = lo[p]; at[p] < hi[p]; at[p]++) {
    for (at[q] = lo[q]; at[q] < hi[q]; at[q]++) {
      for (at[r] = lo[r]; at[r] < hi[r]; at[r]++) yield [at[0], at[1], at[2]];
    }
  }
}

/** The region that options ask for. Throws `OptionError` for a level or extent that is not there, `BoxError` for a box outside. */
export function regionOf(
  volume: VolumeInfo,
  options: {
    readonly level?: number;
    readonly lo?: readonly number[];
    readonly hi?: readonly number[];
    readonly extent?: Extent;
  } = {},
): Region {
  const level = options.level ?? 0;
  const extent = options.extent ?? "box";
  const { shape, chunk } = levelOf(volume, level);
  if (extent !== "box" && extent !== "level") {
    throw new OptionError(`extent is ${JSON.stringify(extent)}; expected "box" or "level"`);
  }
  const box = voxelBox(shape, options.lo, options.hi);
  const served = chunkRange({ shape, chunk }, box.lo, box.hi);
  const common = { volume, level, extent, chunk, levelShape: shape, served };
  if (extent === "level") {
    const lo = vec3((a) => served.lo[a] * chunk[a]);
    const hi = vec3((a) => Math.min(shape[a], served.hi[a] * chunk[a]));
    return { ...common, lo, hi, array: { shape, lo: [0, 0, 0], chunks: served } };
  }
  const size = vec3((a) => box.hi[a] - box.lo[a]);
  const chunks = { lo: [0, 0, 0] as Vec3, hi: vec3((a) => Math.ceil(size[a] / chunk[a])) };
  return { ...common, lo: box.lo, hi: box.hi, array: { shape: size, lo: box.lo, chunks } };
}

/** How many chunks of the array are written, along each axis. */
export function arrayChunks(region: Region): Vec3 {
  return vec3((a) => region.array.chunks.hi[a] - region.array.chunks.lo[a]);
}

/** Bytes of one chunk, served or written: channel axes whole, full chunk shape. */
export function chunkBytes(region: Region): number {
  return volumeOf(region.volume.channels) * volumeOf(region.chunk) * widthOf(region.volume.dtype);
}

/**
 * The axes along which a chunk of the array is made of two served ones: the box starts off the chunk edges, and
 * does not lie within one served chunk.
 */
export function splitAxes(region: Region): number[] {
  return AXES.filter((a) => {
    const off = region.lo[a] % region.chunk[a] !== 0;
    return off && region.served.hi[a] - region.served.lo[a] > 1;
  });
}

/**
 * The axes to walk the served chunks in, outermost first: those the box does not split in C order, then the split
 * ones, the one with the most chunks of the array first (C order among equals). No order holds fewer chunks.
 */
export function walkOrder(region: Region): number[] {
  const split = splitAxes(region);
  const counts = arrayChunks(region);
  const bySize = [...split].sort((a, b) => counts[b] - counts[a] || a - b);
  return [...AXES.filter((a) => !split.includes(a)), ...bySize];
}

/**
 * The most chunks of the array that are started and not complete at any time of a walk in `order`, when served
 * chunks arrive in turn. For each split axis: the chunks of one step along it, over the axes inside it. In
 * `walkOrder` that is a slab across the split axes but the outermost, a row, and one more; nothing when no axis
 * is split. (An axis with a single chunk may hold fewer: this is a bound.)
 */
export function mostHeld(region: Region, order: readonly number[] = walkOrder(region)): number {
  const split = splitAxes(region);
  const counts = arrayChunks(region);
  return order.reduce(
    (held, axis, i) =>
      split.includes(axis) ? held + volumeOf(order.slice(i + 1).map((a) => counts[a])) : held,
    0,
  );
}
