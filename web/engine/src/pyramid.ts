/**
 * Coarser levels of a volume that has one level alone, made from its finest: means for images, the most frequent value
 * for labels and masks. Each level halves the axes whose voxels are the smallest, until one fits in a chunk; level k is
 * made from level k - 1. The same levels and values as the Python engine's `Pyramid` and `kernels.downsample`.
 */

import { type Dtype, TYPED, type Typed } from "./asread.ts";
import { digestOf } from "./digest.ts";
import { AXES, shapeOf, type Vec3, vec3, volumeOf } from "./geometry.ts";
import { kept, type StageCache } from "./pipeline.ts";
import { type Block, chunkOf, readBox } from "./read.ts";
import { checkIndex, chunkBox, type Level, type Volume } from "./volume.ts";

/** 2 on the axes whose voxels are less than twice the smallest (of those longer than one voxel), else 1. */
export function halving({ shape, voxelSize }: Level): Vec3 {
  const smallest = Math.min(...AXES.filter((a) => shape[a] > 1).map((a) => voxelSize[a]));
  return vec3((a) => (shape[a] > 1 && voxelSize[a] < 2 * smallest ? 2 : 1));
}

/** Whether coarser levels are made of a volume: where there is one level, ids need no joining, and it is not float16. */
export function takesPyramid({ levels, merges, dtype }: Volume): boolean {
  return levels.length === 1 && !merges && dtype !== "float16";
}

/**
 * The volume with coarser levels, `most` of them. `cache` keeps the chunks that coarser ones are made of, where no queue
 * stands between.
 */
export function pyramid(source: Volume, cache?: StageCache, most = Number.POSITIVE_INFINITY): Volume {
  const levels: Level[] = [source.levels[0]];
  const factors: Vec3[] = [[1, 1, 1]];
  while (levels.length <= most) {
    const last = levels[levels.length - 1];
    if (AXES.every((a) => last.shape[a] <= last.chunk[a])) break;
    const factor = halving(last);
    factors.push(factor);
    levels.push({
      ...last,
      shape: vec3((a) => Math.ceil(last.shape[a] / factor[a])),
      voxelSize: vec3((a) => last.voxelSize[a] * factor[a]),
    });
  }
  if (levels.length === 1) return source;

  async function coarsen(level: number, index: Vec3, finer: Volume["chunk"], signal?: AbortSignal) {
    checkIndex(made, level, index);
    const box = chunkBox(levels[level], index);
    const { shape } = levels[level - 1];
    const fine = {
      lo: vec3((a) => box.lo[a] * factors[level][a]),
      hi: vec3((a) => Math.min(shape[a], box.hi[a] * factors[level][a])),
    };
    const block = await readBox(inTurn({ ...made, chunk: finer }), level - 1, fine, signal);
    const coarse = source.kind === "image" ? mean(block, factors[level]) : mode(block, factors[level]);
    return chunkOf({ ...block, ...coarse, shape: shapeOf(box) }, levels[level].chunk);
  }

  const finest = kept(source, cache);
  const made: Volume = {
    ...source,
    levels,
    digest: digestOf([source.digest, "pyramid", source.kind, levels]),
    fine: source,
    coarsen,
    async chunk(level, index, signal) {
      checkIndex(made, level, index);
      // Asked for by itself, a chunk of the finest level is kept by whoever asks, not here.
      if (level === 0) return source.chunk(0, index, signal);
      const below = level === 1 ? finest : inner;
      return coarsen(level, index, below.chunk.bind(below), signal);
    },
  };
  const inner = kept(made, cache);
  return made;
}

/** A volume whose chunks are computed one after the other, so that a coarse chunk does not fill a model's queue. */
function inTurn(volume: Volume): Volume {
  let turn: Promise<unknown> = Promise.resolve();
  return {
    ...volume,
    chunk(level, index, signal) {
      const mine = turn.then(() => {
        signal?.throwIfAborted();
        return volume.chunk(level, index, signal);
      });
      turn = mine.catch(() => {});
      return mine;
    },
  };
}

/** Calls `reduce` with the values of each box of `factor` voxels, counted from the block's first; the last may be short. */
function perBox(block: Block, factor: Vec3, reduce: (values: Typed, at: number) => void): number {
  const Kind = TYPED[block.dtype] as new (n: number) => Typed;
  const [nz, ny, nx] = block.shape;
  const buffers = new Map<number, Typed>();
  const from = block.data as { readonly [i: number]: number };
  let at = 0;
  for (let p = 0; p < volumeOf(block.channels); p++) {
    for (let z = 0; z < nz; z += factor[0]) {
      const pz = Math.min(nz, z + factor[0]);
      for (let y = 0; y < ny; y += factor[1]) {
        const py = Math.min(ny, y + factor[1]);
        for (let x = 0; x < nx; x += factor[2]) {
          const px = Math.min(nx, x + factor[2]);
          const count = (pz - z) * (py - y) * (px - x);
          let values = buffers.get(count);
          if (!values) {
            values = new Kind(count);
            buffers.set(count, values);
          }
          let n = 0;
          for (let i = z; i < pz; i++) {
            for (let j = y; j < py; j++) {
              const row = ((p * nz + i) * ny + j) * nx;
              for (let k = x; k < px; k++) (values as { [i: number]: number })[n++] = from[row + k];
            }
          }
          reduce(values, at++);
        }
      }
    }
  }
  return at;
}

const coarseSize = (block: Block, factor: Vec3) =>
  volumeOf(block.channels) * volumeOf(AXES.map((a) => Math.ceil(block.shape[a] / factor[a])));

/** Mean of each box, in the block's dtype; integers are exact and rounded half to even, floats summed in order. */
export function mean(block: Block, factor: Vec3): { data: Typed; dtype: Dtype } {
  const { dtype } = block;
  const out = new (TYPED[dtype] as new (n: number) => Typed)(coarseSize(block, factor));
  const to = out as { [i: number]: number | bigint };
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    perBox(block, factor, (values, at) => {
      let sum = 0n;
      for (const v of values as BigInt64Array) sum += v;
      to[at] = halfEvenBig(sum, BigInt(values.length));
    });
  } else if (dtype === "float32" || dtype === "float64") {
    const round = dtype === "float32" ? Math.fround : (v: number) => v;
    perBox(block, factor, (values, at) => {
      let sum = values[0] as number;
      for (let i = 1; i < values.length; i++) sum = round(sum + (values[i] as number));
      to[at] = sum / values.length;
    });
  } else {
    perBox(block, factor, (values, at) => {
      let sum = 0;
      for (let i = 0; i < values.length; i++) sum += values[i] as number;
      to[at] = halfEven(sum, values.length);
    });
  }
  return { data: out, dtype };
}

function halfEven(sum: number, count: number): number {
  const whole = Math.floor(sum / count);
  const twice = 2 * (sum - whole * count);
  return twice > count || (twice === count && whole % 2 !== 0) ? whole + 1 : whole;
}

function halfEvenBig(sum: bigint, count: bigint): bigint {
  let whole = sum / count;
  if (sum % count < 0n) whole -= 1n;
  const twice = 2n * (sum - whole * count);
  return twice > count || (twice === count && whole % 2n !== 0n) ? whole + 1n : whole;
}

/** Most frequent value of each box; of equally frequent ones the smallest. */
export function mode(block: Block, factor: Vec3): { data: Typed; dtype: Dtype } {
  const out = new (TYPED[block.dtype] as new (n: number) => Typed)(coarseSize(block, factor));
  const to = out as { [i: number]: number | bigint };
  perBox(block, factor, (values, at) => {
    values.sort();
    let [best, longest, run] = [values[0], 1, 1];
    for (let i = 1; i < values.length; i++) {
      run = values[i] === values[i - 1] ? run + 1 : 1;
      if (run > longest) [best, longest] = [values[i], run];
    }
    to[at] = best;
  });
  return { data: out, dtype: block.dtype };
}
