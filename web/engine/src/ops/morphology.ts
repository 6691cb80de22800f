/**
 * Grey morphology with a box: the largest or smallest value within it, once (dilate, erode) or one after the other
 * (open, close). Beyond the data the border voxel is repeated.
 */

import type { Typed } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { type Vec3, vec3, volumeOf } from "../geometry.ts";
import { type Op, type OpData, withData, workingCopy } from "../op.ts";
import { roundHalfEven } from "./cast.ts";
import { only } from "./parameters.ts";

type Better = (a: number | bigint, b: number | bigint) => boolean;
const larger: Better = (a, b) => a > b;
const smaller: Better = (a, b) => a < b;

function sizeOf(data: OpData): Vec3 {
  only(data, ["size"]);
  const given = data.size ?? 3;
  const list = (Array.isArray(given) ? given : [given, given, given]).map(Number);
  if (list.length !== 3 || list.some((n) => !Number.isInteger(n) || n < 1 || n > 127 || n % 2 === 0)) {
    throw new OptionError(
      `${data.name}.size is ${JSON.stringify(given)}; expected odd whole numbers of voxels, 1 to 127: one, or z, y, x`,
    );
  }
  return list as unknown as Vec3;
}

/** A size of the finest level at a coarse one: the nearest odd number of voxels, at least 1. */
function scaledSize(size: Vec3, factor: Vec3): Vec3 {
  return vec3((a) => Math.max(1, 2 * roundHalfEven((size[a] / factor[a] - 1) / 2) + 1));
}

/** The extreme over every window of `size` along an axis, which shrinks by half of it on both sides. */
function along(
  data: Typed,
  planes: number,
  shape: Vec3,
  axis: 0 | 1 | 2,
  size: number,
  better: Better,
): { data: Typed; shape: Vec3 } {
  const out = vec3((a) => (a === axis ? shape[a] - (size - 1) : shape[a]));
  const result = new (data.constructor as new (n: number) => Typed)(planes * volumeOf(out));
  const to = result as { [i: number]: number | bigint };
  const inner = volumeOf(shape.slice(axis + 1));
  const outer = planes * volumeOf(shape.slice(0, axis));
  const [n, m] = [shape[axis], out[axis]];
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < inner; j++) {
        let at = (o * n + i) * inner + j;
        let best = data[at];
        for (let k = 1; k < size; k++) {
          at += inner;
          if (better(data[at], best)) best = data[at];
        }
        to[(o * m + i) * inner + j] = best;
      }
    }
  }
  return { data: result, shape: out };
}

function boxMorphology(data: OpData, passes: readonly Better[]): Op {
  const size = sizeOf(data);
  return {
    data,
    levels: "coarse",
    boundary: "edge",
    halo: (factor) => {
      const here = scaledSize(size, factor);
      return vec3((a) => (passes.length * (here[a] - 1)) / 2);
    },
    outcome: (input) => ({
      dtype: input.dtype === "float16" ? "float32" : input.dtype,
      channels: input.channels,
      kind: input.kind,
    }),
    apply(block, place) {
      const here = scaledSize(size, place.factor);
      const half = block.dtype === "float16";
      const planes = volumeOf(block.channels);
      let values: Typed = half ? workingCopy(block) : block.data;
      let shape = block.shape;
      for (const better of passes) {
        for (const axis of [0, 1, 2] as const) {
          if (here[axis] > 1)
            ({ data: values, shape } = along(values, planes, shape, axis, here[axis], better));
        }
      }
      return withData({ ...block, shape }, half ? "float32" : block.dtype, values);
    },
  };
}

/** The largest value in the box around each voxel. */
export const dilate = (data: OpData): Op => boxMorphology(data, [larger]);
/** The smallest value in the box around each voxel. */
export const erode = (data: OpData): Op => boxMorphology(data, [smaller]);
/** Erode, then dilate: bright things that the box does not fit into go. */
export const open = (data: OpData): Op => boxMorphology(data, [smaller, larger]);
/** Dilate, then erode: dark things that the box does not fit into are filled. */
export const close = (data: OpData): Op => boxMorphology(data, [larger, smaller]);
