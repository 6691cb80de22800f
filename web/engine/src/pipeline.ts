/**
 * A volume made by ops on a volume. A stage is a run of ops that needs one read of the stage below: an op with a
 * halo and the pointwise ops after it. Each stage is itself a volume; what a stage computed is kept in the cache.
 *
 * Tiled equals whole: every chunk is computed from the chunk's voxels and their halo alone, and outside the level
 * stands what the op says.
 */

import { widthOf } from "./asread.ts";
import type { ByteCache } from "./cache.ts";
import { Joined } from "./cache.ts";
import { digestOf } from "./digest.ts";
import { AXES, shapeOf, type Vec3, vec3, volumeOf } from "./geometry.ts";
import type { Op, Place } from "./op.ts";
import { pyramid, takesPyramid } from "./pyramid.ts";
import { chunkOf, readPadded } from "./read.ts";
import { checkIndex, checkInfo, chunkBox, type Volume, type VolumeInfo } from "./volume.ts";

/** Decoded chunks of every stage, by digest, level and index; null where all is 0. */
export type StageCache = ByteCache<Uint8Array | null>;

/** The ops in runs: a new stage before each op with a halo, and before one that works on the finest level alone. */
export function stagesOf(ops: readonly Op[]): Op[][] {
  const stages: Op[][] = [];
  for (const op of ops) {
    const context = op.halo([1, 1, 1]).some((n) => n > 0) || op.levels === "fine" || op.chunk !== undefined;
    if (context || stages.length === 0) stages.push([op]);
    else stages[stages.length - 1].push(op);
  }
  return stages;
}

/**
 * The volume that ops make of a volume, under its own name or another. `cache` keeps the chunks of inner stages.
 *
 * Where an op works on the finest level alone, coarser levels are made of the result.
 */
export function pipeline(given: Volume, ops: readonly Op[], name = given.name, cache?: StageCache): Volume {
  const source = ops.length > 0 && given.fine ? given.fine : given;
  const made = staged(source, ops, name, cache);
  const fine = source !== given || ops.some((op) => op.levels === "fine");
  return fine && takesPyramid(made) ? pyramid(made, cache) : made;
}

function staged(source: Volume, ops: readonly Op[], name: string, cache?: StageCache): Volume {
  let volume = source;
  for (const stage of stagesOf(ops))
    volume = stageOf(volume === source ? source : kept(volume, cache), stage, name);
  return volume === source ? { ...source, name, chunk: source.chunk.bind(source) } : volume;
}

function stageOf(below: Volume, ops: readonly Op[], name: string): Volume {
  let info = { ...below, name };
  for (const op of ops) info = { ...info, ...op.outcome(info) };
  const own = ops[0].chunk;
  const kept = ops.some((op) => op.levels === "fine") ? below.levels.slice(0, 1) : below.levels;
  const levels = own ? kept.map((level) => ({ ...level, chunk: own })) : kept;
  const volume = checkInfo({
    name,
    dtype: info.dtype,
    kind: info.kind,
    channels: info.channels,
    levels,
  });
  const digest = digestOf([below.digest, name, levels, ops.map((op) => op.data)]);
  const finest = below.levels[0].voxelSize;
  return {
    ...volume,
    digest,
    merges: ops[ops.length - 1].merges,
    dear: below.dear || ops.some((op) => op.dear),
    notes: below.notes,
    async chunk(level, index, signal) {
      checkIndex(volume, level, index);
      const at = levels[level];
      const place: Place = {
        level,
        factor: vec3((a) => at.voxelSize[a] / finest[a]),
        index,
        chunkVoxels: volumeOf(at.chunk),
        signal,
      };
      const inside = chunkBox(at, index);
      const box = own ? { lo: inside.lo, hi: vec3((a) => inside.lo[a] + own[a]) } : inside;
      const halo = ops[0].halo(place.factor);
      const padded = {
        lo: vec3((a) => box.lo[a] - halo[a]),
        hi: vec3((a) => box.hi[a] + halo[a]),
      };
      let block = await readPadded(below, level, padded, ops[0].boundary, signal);
      for (const op of ops) {
        signal?.throwIfAborted();
        block = await op.apply(block, place);
      }
      const bytes = chunkOf(block, at.chunk);
      return own ? emptied(bytes, volume, level, index) : bytes;
    },
  };
}

/** A full chunk with 0 past the level's end, in place. */
function emptied(bytes: Uint8Array, info: VolumeInfo, level: number, index: Vec3): Uint8Array {
  const { chunk } = info.levels[level];
  const n = shapeOf(chunkBox(info.levels[level], index));
  if (AXES.every((a) => n[a] === chunk[a])) return bytes;
  const row = chunk[2] * widthOf(info.dtype);
  const width = n[2] * widthOf(info.dtype);
  for (let p = 0, at = 0; p < volumeOf(info.channels); p++) {
    for (let z = 0; z < chunk[0]; z++) {
      for (let y = 0; y < chunk[1]; y++, at += row) {
        bytes.fill(0, z < n[0] && y < n[1] ? at + width : at, at + row);
      }
    }
  }
  return bytes;
}

/** The same volume, its chunks kept in a cache; one that several ask for at once is computed once. */
export function kept(volume: Volume, cache?: StageCache): Volume {
  const joined = new Joined<Uint8Array | null>();
  return {
    ...volume,
    fine: volume.fine && kept(volume.fine, cache),
    async chunk(level, index, signal) {
      const key = chunkKey(volume.digest, level, index);
      const found = cache?.get(key);
      if (found !== undefined) return found;
      return joined.ask(key, signal, async (shared) => {
        const bytes = await volume.chunk(level, index, shared);
        cache?.put(key, bytes, bytes?.byteLength ?? 0);
        return bytes;
      });
    },
  };
}

/** The key of a chunk in caches and queues. */
export function chunkKey(digest: string, level: number, index: Vec3): string {
  return `${digest}/${level}/${AXES.map((a) => index[a]).join(".")}`;
}
