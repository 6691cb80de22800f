/**
 * Grey dilation and erosion with a cube: the largest or smallest value within it; outside the volume counts for
 * nothing. A cube of even size reaches one voxel further towards higher indices, as in scikit-image.
 */

import type { Typed } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { type Vec3, vec3, volumeOf } from "../geometry.ts";
import { type Op, type OpData, withData, workingCopy } from "../op.ts";
import { number, only } from "./parameters.ts";

function sizeOf(data: OpData): number {
  only(data, ["size"]);
  const size = number(data, "size", 3);
  if (!Number.isInteger(size) || size < 1) {
    throw new OptionError(`${data.name}.size is ${size}; expected a whole number of voxels, 1 or more`);
  }
  return size;
}

/** The extreme over every window of `size` along an axis, which shrinks by the halo on both sides. */
function along(
  data: Typed,
  planes: number,
  shape: Vec3,
  axis: 0 | 1 | 2,
  size: number,
  better: (a: number | bigint, b: number | bigint) => boolean,
): { data: Typed; shape: Vec3 } {
  const halo = Math.floor(size / 2);
  const first = halo - Math.floor((size - 1) / 2);
  const out = vec3((a) => (a === axis ? shape[a] - 2 * halo : shape[a]));
  const result = new (data.constructor as new (n: number) => Typed)(planes * volumeOf(out));
  const to = result as { [i: number]: number | bigint };
  const inner = volumeOf(shape.slice(axis + 1));
  const outer = planes * volumeOf(shape.slice(0, axis));
  const [n, m] = [shape[axis], out[axis]];
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < inner; j++) {
        let at = (o * n + i + first) * inner + j;
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

function extreme(data: OpData, better: (a: number | bigint, b: number | bigint) => boolean): Op {
  const size = sizeOf(data);
  // A size is in voxels of the finest level; at a coarse one it is the nearest whole number, at least 1.
  const at = (factor: number) => Math.max(1, Math.round(size / factor));
  return {
    data,
    levels: "coarse",
    boundary: "edge", // a cube that reaches over a face holds the face's own voxels: repeating them adds nothing
    halo: (factor) => vec3((a) => Math.floor(at(factor[a]) / 2)),
    outcome: (input) => ({
      dtype: input.dtype === "float16" ? "float32" : input.dtype,
      channels: input.channels,
      kind: input.kind,
    }),
    apply(block, place) {
      const half = block.dtype === "float16";
      let values: Typed = half ? workingCopy(block) : block.data;
      let shape = block.shape;
      for (const axis of [0, 1, 2] as const) {
        const edge = at(place.factor[axis]);
        if (edge > 1)
          ({ data: values, shape } = along(values, volumeOf(block.channels), shape, axis, edge, better));
      }
      return withData({ ...block, shape }, half ? "float32" : block.dtype, values);
    },
  };
}

/** The largest value within a cube of `size` voxels. */
export function dilate(data: OpData): Op {
  return extreme(data, (a, b) => a > b);
}

/** The smallest value within a cube of `size` voxels. */
export function erode(data: OpData): Op {
  return extreme(data, (a, b) => a < b);
}
