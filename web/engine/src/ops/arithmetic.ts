/** The engine's own ops that look at one voxel at a time, under the names and with the rules of the Python engine. */

import type { Dtype, Typed } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { type Op, type OpData, pointwise, withData, workingCopy } from "../op.ts";
import type { Block } from "../read.ts";
import type { VolumeInfo } from "../volume.ts";
import { number, only } from "./parameters.ts";

/** The float type that holds a dtype's values: float32 up to 16 bits, else float64; float16 is computed as float32. */
function floatFor(dtype: Dtype): "float32" | "float64" {
  return ["int32", "uint32", "int64", "uint64", "float64"].includes(dtype) ? "float64" : "float32";
}

const asFloats = (input: VolumeInfo) => ({
  dtype: floatFor(input.dtype),
  channels: input.channels,
  kind: input.kind,
});
const rounded = (y: Float32Array | Float64Array) =>
  y instanceof Float32Array ? Math.fround : (v: number) => v;

/** 1 where the value is at least `low` (and at most `high`, if given), else 0, NaN too. 64-bit integers are compared exactly. */
export function thresholdOp(data: OpData): Op {
  only(data, ["low", "high"]);
  const low = number(data, "low");
  const high = data.high == null ? Number.POSITIVE_INFINITY : number(data, "high");
  return pointwise(
    data,
    (input) => ({ dtype: "uint8", channels: input.channels, kind: "mask" }),
    (block) => {
      const out = new Uint8Array(block.data.length);
      const { data: values } = block;
      if (values instanceof BigInt64Array || values instanceof BigUint64Array) {
        const least = BigInt(Math.ceil(low));
        const most = Number.isFinite(high) ? BigInt(Math.floor(high)) : undefined;
        for (let i = 0; i < out.length; i++) {
          out[i] = values[i] >= least && (most === undefined || values[i] <= most) ? 1 : 0;
        }
      } else {
        const x = block.dtype === "float16" ? workingCopy(block) : values;
        const [least, most] = x instanceof Float32Array ? [Math.fround(low), Math.fround(high)] : [low, high];
        for (let i = 0; i < out.length; i++) out[i] = x[i] >= least && x[i] <= most ? 1 : 0;
      }
      return withData(block, "uint8", out);
    },
  );
}

/** Values limited to `low` … `high`, as floats; NaN stays. */
export function clip(data: OpData): Op {
  only(data, ["low", "high"]);
  const [low, high] = [number(data, "low"), number(data, "high")];
  if (low > high) throw new OptionError(`${data.name}: low ${low} is above high ${high}`);
  return pointwise(data, asFloats, (block) => {
    const y = workingCopy(block);
    const round = rounded(y);
    const [lo, hi] = [round(low), round(high)];
    for (let i = 0; i < y.length; i++) y[i] = y[i] < lo ? lo : y[i] > hi ? hi : y[i];
    return withData(block, floatFor(block.dtype), y);
  });
}

/** `value * factor + offset`, as floats. */
export function scaleOp(data: OpData): Op {
  only(data, ["factor", "offset"]);
  const [factor, offset] = [number(data, "factor"), number(data, "offset", 0)];
  return pointwise(data, asFloats, (block) => {
    const y = workingCopy(block);
    const round = rounded(y);
    const [times, plus] = [round(factor), round(offset)];
    for (let i = 0; i < y.length; i++) y[i] = round(y[i] * times) + plus;
    return withData(block, floatFor(block.dtype), y);
  });
}

/** Bright for dark: the largest value minus the value for integers, not for bool, 1 - value for floats. */
export function invert(data: OpData): Op {
  only(data, []);
  return pointwise(
    data,
    (input) => ({ ...input, dtype: input.dtype === "float16" ? "float32" : input.dtype }),
    (block) => {
      if (block.dtype.startsWith("float")) {
        const y = workingCopy(block);
        for (let i = 0; i < y.length; i++) y[i] = 1 - y[i];
        return withData(block, block.dtype === "float64" ? "float64" : "float32", y);
      }
      const out = block.data.slice() as Typed;
      if (block.dtype === "bool") for (let i = 0; i < out.length; i++) out[i] = out[i] ? 0 : 1;
      else if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
        for (let i = 0; i < out.length; i++) out[i] = ~out[i]; // a typed array keeps the low 64 bits
      } else for (let i = 0; i < out.length; i++) out[i] = ~out[i];
      return withData(block, block.dtype, out);
    },
  );
}

/** Some channels of the first channel axis, in the order given; one alone, as a number, loses the axis. */
export function channelsOp(data: OpData): Op {
  only(data, ["channels"]);
  const given = data.channels;
  const list = (Array.isArray(given) ? given : String(given ?? "").split(",")).map(Number);
  const alone = !Array.isArray(given) && list.length === 1;
  if (list.length === 0 || list.some((n) => !Number.isInteger(n) || n < 0)) {
    throw new OptionError(`${data.name}.channels is ${JSON.stringify(given)}; expected numbers from 0`);
  }
  const outcome = (channels: readonly number[]) => {
    if (channels.length === 0)
      throw new OptionError(`${data.name}: the data has no channel axis to choose from`);
    const missing = list.find((n) => n >= channels[0]);
    if (missing !== undefined) {
      throw new OptionError(
        `${data.name}: no channel ${missing}; the data has ${channels[0]}, 0 to ${channels[0] - 1}`,
      );
    }
    return alone ? channels.slice(1) : [list.length, ...channels.slice(1)];
  };
  const apply = (block: Block): Block => {
    const channels = outcome(block.channels);
    const plane = block.data.length / block.channels[0];
    const out = new (block.data.constructor as new (n: number) => Typed)(plane * list.length);
    list.forEach((c, i) => {
      (out as Uint8Array).set((block.data as Uint8Array).subarray(c * plane, (c + 1) * plane), i * plane);
    });
    return { ...block, data: out, channels };
  };
  return pointwise(
    data,
    (input) => ({ dtype: input.dtype, kind: input.kind, channels: outcome(input.channels) }),
    apply,
  );
}
