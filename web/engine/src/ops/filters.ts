/**
 * Filters with context. The Gaussian is SciPy's `gaussian_filter`: cut off at 4 sigma, the border voxel repeated
 * beyond the volume (its mode "nearest"), in float32 between the axes.
 */

import { OptionError } from "../errors.ts";
import { type Vec3, vec3, volumeOf } from "../geometry.ts";
import { type Op, type OpData, withData, workingCopy } from "../op.ts";
import type { Block } from "../read.ts";
import { only } from "./parameters.ts";

const TRUNCATE = 4;

/** One number for all axes, or three. */
function perAxis(data: OpData, name: string): Vec3 {
  const given = data[name];
  const list = Array.isArray(given) ? given : [given, given, given];
  const numbers = list.map((v) => (typeof v === "string" && v.trim() !== "" ? Number(v) : v));
  if (
    numbers.length !== 3 ||
    numbers.some((v) => typeof v !== "number" || !(v >= 0) || !Number.isFinite(v))
  ) {
    throw new OptionError(
      `${data.name}.${name} is ${JSON.stringify(given)}; expected a number of voxels (0 or more), or three (z, y, x)`,
    );
  }
  return numbers as unknown as Vec3;
}

/** The radius of a Gaussian's kernel in voxels. */
export function gaussianRadius(sigma: number): number {
  return Math.trunc(TRUNCATE * sigma + 0.5);
}

function weights(sigma: number): Float64Array {
  const radius = gaussianRadius(sigma);
  const w = Float64Array.from({ length: 2 * radius + 1 }, (_, i) =>
    Math.exp((-0.5 / sigma ** 2) * (i - radius) ** 2),
  );
  const sum = w.reduce((s, v) => s + v, 0);
  return w.map((v) => v / sum);
}

/** One axis of a separable filter over the valid part; the axis shrinks by twice the radius. */
function along(
  data: Float32Array | Float64Array,
  planes: number,
  shape: Vec3,
  axis: 0 | 1 | 2,
  w: Float64Array,
): { data: Float32Array; shape: Vec3 } {
  const radius = (w.length - 1) / 2;
  const out = vec3((a) => (a === axis ? shape[a] - 2 * radius : shape[a]));
  const result = new Float32Array(planes * volumeOf(out));
  const inner = volumeOf(shape.slice(axis + 1));
  const outer = planes * volumeOf(shape.slice(0, axis));
  const [n, m] = [shape[axis], out[axis]];
  const row = new Float64Array(inner);
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < m; i++) {
      row.fill(0);
      for (let k = 0; k < w.length; k++) {
        const from = (o * n + i + k) * inner;
        const weight = w[k];
        for (let j = 0; j < inner; j++) row[j] += data[from + j] * weight;
      }
      result.set(row, (o * m + i) * inner);
    }
  }
  return { data: result, shape: out };
}

/** The op: `{name: "gaussian", sigma}`, sigma in voxels of the finest level. The result is float32. */
export function gaussian(data: OpData): Op {
  only(data, ["sigma"]);
  const sigma = perAxis(data, "sigma");
  const at = (factor: Vec3) => vec3((a) => sigma[a] / factor[a]);
  return {
    data,
    levels: "coarse",
    boundary: "edge",
    halo: (factor) => vec3((a) => gaussianRadius(at(factor)[a])),
    outcome: (input) => ({ dtype: "float32", channels: input.channels, kind: "image" }),
    apply(block: Block, place) {
      const here = at(place.factor);
      const planes = volumeOf(block.channels);
      let values: Float32Array | Float64Array = workingCopy(block);
      let shape = block.shape;
      for (const axis of [0, 1, 2] as const) {
        if (gaussianRadius(here[axis]) === 0) continue;
        ({ data: values, shape } = along(values, planes, shape, axis, weights(here[axis])));
      }
      const result = values instanceof Float32Array ? values : new Float32Array(values);
      return withData({ ...block, shape }, "float32", result);
    },
  };
}
