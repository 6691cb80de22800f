/**
 * What a volume is: a pyramid of chunked levels with a place in the world. A stored dataset is one, and so is a
 * computation over one; a reader need not know which it got.
 */

import { type Dtype, widthOf } from "./asread.ts";
import { MetadataError, OptionError } from "./errors.ts";
import { AXES, type Box, type Grid, type Vec3, vec3, volumeOf } from "./geometry.ts";

/** One level: its shape and chunk shape in voxels, its voxel size and corner in nm. */
export interface Level extends Grid {
  readonly shape: Vec3;
  readonly chunk: Vec3;
}

export type Kind = "image" | "labels" | "mask";

/** What is known of a volume without reading a voxel. `channels` are the sizes of the channel axes, first in every chunk. */
export interface VolumeInfo {
  readonly name: string;
  readonly dtype: Dtype;
  readonly kind: Kind;
  readonly channels: readonly number[];
  readonly levels: readonly Level[];
}

/**
 * A volume that can be read, chunk by chunk. A chunk is C-order little-endian bytes of shape
 * `[...channels, ...chunk]`, full-size also at the edge, 0 past the level's end; `null` stands for all zeros.
 * Whoever gets a chunk must not write into it: it may sit in a cache.
 */
export interface Volume extends VolumeInfo {
  /** Changes whenever the bytes or the metadata can change. */
  readonly digest: string;
  /** Whether objects of neighbouring chunks have to be joined before ids mean objects (`finalize.ts`). */
  readonly merges?: boolean;
  /** Whether a chunk takes long (a model's forward), so that it waits in a queue of its own. */
  readonly dear?: boolean;
  /** Where the coarser levels are made of the finest (`pyramid.ts`): the volume of that level alone. Ops go on it. */
  readonly fine?: Volume;
  /** Makes a chunk of such a coarser level of chunks of the level before it, which it asks `finer` for one by one. */
  coarsen?(level: number, index: Vec3, finer: Volume["chunk"], signal?: AbortSignal): Promise<Uint8Array>;
  /** What a person should know of it: a model made for voxels of another size. */
  readonly notes?: readonly string[];
  chunk(level: number, index: Vec3, signal?: AbortSignal): Promise<Uint8Array | null>;
}

/** How many chunks a level has along each axis. */
export function chunkCounts(level: Level): Vec3 {
  return vec3((a) => Math.ceil(level.shape[a] / level.chunk[a]));
}

/** Bytes of one full chunk of a level, channels included. */
export function chunkBytesOf(info: VolumeInfo, level: number): number {
  return volumeOf(info.channels) * volumeOf(info.levels[level].chunk) * widthOf(info.dtype);
}

/** The voxels of a chunk that lie inside the level. */
export function chunkBox(level: Level, index: Vec3): Box {
  return {
    lo: vec3((a) => index[a] * level.chunk[a]),
    hi: vec3((a) => Math.min(level.shape[a], (index[a] + 1) * level.chunk[a])),
  };
}

/** The name of a chunk in messages and logs: `<volume>/<level>/<i.j.k>`. */
export function chunkName(volume: string, level: number, index: readonly number[]): string {
  return `${volume}/${level}/${index.join(".")}`;
}

/** The level asked for, or an error that says which there are. */
export function levelOf(info: VolumeInfo, level: number): Level {
  const found = info.levels[level];
  if (!found) {
    throw new OptionError(
      `level ${level} of ${info.name}: not there; the volume has levels 0 to ${info.levels.length - 1}`,
    );
  }
  return found;
}

/** Refuses an index that is not in the level's chunk grid. */
export function checkIndex(info: VolumeInfo, level: number, index: Vec3): void {
  const counts = chunkCounts(levelOf(info, level));
  if (AXES.some((a) => !Number.isInteger(index[a]) || index[a] < 0 || index[a] >= counts[a])) {
    throw new OptionError(
      `chunk ${chunkName(info.name, level, index)}: outside the level's ${counts.join(" x ")} chunks`,
    );
  }
}

/** Refuses a description no volume can have, naming the member. Returns it unchanged. */
export function checkInfo<T extends VolumeInfo>(info: T): T {
  const bad = (member: string, found: unknown, expected: string): never => {
    throw new MetadataError(
      `volume ${info.name}: ${member} is ${JSON.stringify(found)}; expected ${expected}`,
    );
  };
  if (info.levels.length === 0) bad("levels", [], "at least one level");
  info.channels.forEach((n, i) => {
    if (!Number.isInteger(n) || n < 1) bad(`channels[${i}]`, n, "a whole number of 1 or more");
  });
  info.levels.forEach((level, i) => {
    for (const a of AXES) {
      const whole = (n: number) => Number.isSafeInteger(n) && n >= 1;
      if (!whole(level.shape[a])) bad(`levels[${i}].shape`, level.shape, "whole numbers of 1 or more");
      if (!whole(level.chunk[a])) bad(`levels[${i}].chunk`, level.chunk, "whole numbers of 1 or more");
      if (!(level.voxelSize[a] > 0 && Number.isFinite(level.voxelSize[a])))
        bad(`levels[${i}].voxelSize`, level.voxelSize, "nm above 0");
      if (!Number.isFinite(level.corner[a])) bad(`levels[${i}].corner`, level.corner, "finite nm");
    }
  });
  return info;
}
