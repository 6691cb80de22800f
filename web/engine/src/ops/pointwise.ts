/**
 * Normalizers and postprocessors that look at one voxel at a time, under the names and with the arithmetic of
 * the Python chain: float32 where that holds the input exactly, else float64; the result float32.
 */

import type { Dtype, Typed } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { parseExpression } from "../expression.ts";
import { type Op, type OpData, pointwise, withData, workingCopy } from "../op.ts";
import type { Block } from "../read.ts";
import type { Kind, VolumeInfo } from "../volume.ts";
import { saturated } from "./cast.ts";
import { boolean, number, only, text } from "./parameters.ts";

const becomes = (dtype: Dtype, kind: Kind) => (input: VolumeInfo) => ({
  dtype,
  kind,
  channels: input.channels,
});
const float32 = (block: Block, data: Float32Array | Float64Array) =>
  withData(block, "float32", data instanceof Float32Array ? data : new Float32Array(data));

/** A number as the array's own float type holds it: NumPy rounds a Python float to the array's dtype first. */
const as = (data: Float32Array | Float64Array, value: number) =>
  data instanceof Float32Array ? Math.fround(value) : value;

function scaleToUnit(block: Block, low: number, high: number): Block {
  const y = workingCopy(block);
  const [lo, hi, range] = [as(y, low), as(y, high), as(y, high - low)];
  // NumPy rounds to the array's type after each step; storing does.
  for (let i = 0; i < y.length; i++) {
    const v = y[i];
    y[i] = (v < lo ? lo : v > hi ? hi : v) - lo;
    y[i] /= range;
  }
  return float32(block, y);
}

function standardize(block: Block, mean: number, std: number): Block {
  const y = workingCopy(block);
  const [m, s] = [as(y, mean), as(y, std)];
  for (let i = 0; i < y.length; i++) {
    y[i] -= m;
    y[i] /= s;
  }
  return float32(block, y);
}

/** `(clip(x, min_value, max_value) - min_value) / (max_value - min_value)`; 1 less that where inverted. */
export function minMax(data: OpData): Op {
  only(data, ["min_value", "max_value", "invert"]);
  const [low, high] = [number(data, "min_value", 0), number(data, "max_value", 255)];
  if (high <= low) {
    throw new OptionError(
      `${data.name}: max_value must be greater than min_value, got ${high} and ${low}; to turn bright into dark, set invert`,
    );
  }
  const apply = (block: Block) => scaleToUnit(block, low, high);
  if (!boolean(data, "invert", false)) return pointwise(data, becomes("float32", "image"), apply);
  return pointwise(data, becomes("float32", "image"), (block) => {
    const scaled = apply(block);
    const y = scaled.data as Float32Array;
    for (let i = 0; i < y.length; i++) y[i] = 1 - y[i];
    return scaled;
  });
}

/** `(x - mean) / std`. */
export function zScore(data: OpData): Op {
  only(data, ["mean", "std"]);
  const [mean, std] = [number(data, "mean", 0), number(data, "std", 1)];
  if (std <= 0) throw new OptionError(`${data.name}.std is ${std}; expected a number above 0`);
  return pointwise(data, becomes("float32", "image"), (block) => standardize(block, mean, std));
}

/** The volume's mean taken off, divided by its standard deviation. Both are frozen into the op: see `statistics.ts`. */
export function wholeVolumeStandardizer(data: OpData): Op {
  only(data, ["mean", "std", "level"]);
  const [mean, std] = [frozen(data, "mean"), frozen(data, "std")];
  return pointwise(data, becomes("float32", "image"), (block) => standardize(block, mean, std));
}

/** Clipped to two percentiles of the volume and scaled to [0, 1]. Both values are frozen into the op. */
export function wholeVolumePercentile(data: OpData): Op {
  only(data, ["low_percent", "high_percent", "low_value", "high_value", "level"]);
  const [low, high] = [frozen(data, "low_value"), frozen(data, "high_value")];
  return pointwise(data, becomes("float32", "image"), (block) => scaleToUnit(block, low, high));
}

function frozen(data: OpData, name: string): number {
  if (data[name] == null) {
    throw new OptionError(`${data.name}.${name} is not set; resolve the op on the volume first (resolveOps)`);
  }
  return number(data, name);
}

/** Any expression in x, on float32 data. */
export function lambda(data: OpData): Op {
  only(data, ["expression"]);
  const expression = parseExpression(text(data, "expression"));
  return pointwise(data, becomes("float32", "image"), (block) => {
    const working = workingCopy(block);
    const x = working instanceof Float32Array ? working : new Float32Array(working);
    return withData(block, "float32", expression.evaluate(x));
  });
}

/** `1 / (1 + exp(-x))`. */
export function sigmoid(data: OpData): Op {
  only(data, []);
  return pointwise(data, becomes("float32", "image"), (block) => {
    const y = workingCopy(block);
    for (let i = 0; i < y.length; i++) y[i] = 1 / (1 + Math.exp(-y[i]));
    return float32(block, y);
  });
}

/** 1 where the value is above the threshold, else 0 (also for NaN). 64-bit integers are compared exactly. */
export function threshold(data: OpData): Op {
  only(data, ["threshold"]);
  const limit = number(data, "threshold", 0.5);
  return pointwise(data, becomes("uint8", "mask"), (block) => {
    const out = new Uint8Array(block.data.length);
    const values = block.dtype === "float16" ? workingCopy(block) : block.data;
    if (values instanceof BigInt64Array || values instanceof BigUint64Array) {
      const whole = BigInt(Math.floor(limit));
      for (let i = 0; i < out.length; i++) out[i] = values[i] > whole ? 1 : 0;
    } else {
      const at = values instanceof Float32Array ? Math.fround(limit) : limit;
      for (let i = 0; i < out.length; i++) out[i] = values[i] > at ? 1 : 0;
    }
    return withData(block, "uint8", out);
  });
}

/** Clipped, a bias added, multiplied, the fraction dropped: floats to uint8. */
export function defaultPostprocessor(data: OpData): Op {
  only(data, ["clip_min", "clip_max", "bias", "multiplier"]);
  const [low, high] = [number(data, "clip_min", -1), number(data, "clip_max", 1)];
  const [bias, multiplier] = [number(data, "bias", 1), number(data, "multiplier", 127.5)];
  if (high < low) {
    throw new OptionError(`${data.name}: clip_max must not be less than clip_min, got ${high} and ${low}`);
  }
  return pointwise(data, becomes("uint8", "image"), (block) => {
    const y = workingCopy(block);
    const [lo, hi, add, times] = [as(y, low), as(y, high), as(y, bias), as(y, multiplier)];
    for (let i = 0; i < y.length; i++) {
      const v = y[i];
      y[i] = v < lo ? lo : v > hi ? hi : v;
      y[i] += add;
      y[i] *= times;
    }
    return withData(block, "uint8", saturated(y, "uint8", Math.trunc));
  });
}

/** Some channels, in the order given: "0,2". */
export function channelSelection(data: OpData): Op {
  only(data, ["channels"]);
  const given = data.channels ?? "0";
  const words = Array.isArray(given)
    ? given
    : String(given)
        .replace(/[[\]() ]/g, "")
        .split(",");
  const channels = words.map(Number);
  if (channels.length === 0 || channels.some((n) => !Number.isInteger(n) || n < 0)) {
    throw new OptionError(
      `${data.name}.channels is ${JSON.stringify(given)}; expected numbers from 0, such as 0,2`,
    );
  }
  const check = (count: number) => {
    const missing = channels.find((n) => n >= count);
    if (missing === undefined) return;
    throw new OptionError(
      `${data.name}: there is no channel ${missing}; the data has ${count}, counted from 0`,
    );
  };
  return pointwise(
    data,
    (input) => {
      check(input.channels[0] ?? 1);
      const same = input.channels.length === 0 && channels.length === 1;
      return {
        dtype: input.dtype,
        kind: input.kind,
        channels: same ? [] : [channels.length, ...input.channels.slice(1)],
      };
    },
    (block) => {
      check(block.channels[0] ?? 1);
      if (block.channels.length === 0 && channels.length === 1) return block;
      const plane = block.data.length / (block.channels[0] ?? 1);
      const out = new (block.data.constructor as new (n: number) => Typed)(plane * channels.length);
      channels.forEach((c, i) => {
        (out as Uint8Array).set((block.data as Uint8Array).subarray(c * plane, (c + 1) * plane), i * plane);
      });
      return { ...block, data: out, channels: [channels.length, ...block.channels.slice(1)] };
    },
  );
}
