/** A change of number type in which every value has a defined result: saturating, half to even, NaN is 0. */

import { type Dtype, halfToNumber, isDtype, TYPED, type Typed } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { type Op, type OpData, pointwise, withData } from "../op.ts";
import { only, text } from "./parameters.ts";

const LIMITS: Partial<Record<Dtype, readonly [bigint, bigint]>> = {
  int8: [-128n, 127n],
  uint8: [0n, 255n],
  int16: [-32768n, 32767n],
  uint16: [0n, 65535n],
  int32: [-2147483648n, 2147483647n],
  uint32: [0n, 4294967295n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
};

/** The nearest whole number; of two as near, the even one. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Numbers as an integer type: made whole, saturated, NaN 0. */
export function saturated(values: ArrayLike<number>, dtype: Dtype, whole: (v: number) => number): Typed {
  const [low, high] = LIMITS[dtype]!;
  const out = new TYPED[dtype](values.length);
  const wide = out instanceof BigInt64Array || out instanceof BigUint64Array;
  const [lo, hi] = [Number(low), Number(high)];
  for (let i = 0; i < values.length; i++) {
    const v = whole(values[i]);
    if (wide) out[i] = Number.isNaN(v) ? 0n : v <= lo ? low : v >= hi ? high : BigInt(v);
    else (out as Uint8Array)[i] = v <= lo ? lo : v >= hi ? hi : v; // a typed array takes NaN as 0
  }
  return out;
}

/** Values of one dtype as another. The same dtype is given back as it is. */
export function castValues(data: Typed, from: Dtype, to: Dtype): Typed {
  if (from === to) return data;
  if (to === "float16") throw new OptionError("cast to float16 is not supported here; use float32");
  const values: ArrayLike<number> | BigInt64Array | BigUint64Array =
    from === "float16" ? Float32Array.from(data as Uint16Array, halfToNumber) : data;
  if (to === "bool") {
    // Number() of a 64-bit id is not exact, but never 0 unless it is; NaN is false as in Python.
    return Uint8Array.from(values as Float64Array, (v) =>
      Number(v) !== 0 && !Number.isNaN(Number(v)) ? 1 : 0,
    );
  }
  if (values instanceof BigInt64Array || values instanceof BigUint64Array) return fromWide(values, to);
  if (to === "float32" || to === "float64") return new TYPED[to](values);
  return saturated(values, to, from.startsWith("float") ? roundHalfEven : (v) => v);
}

function fromWide(values: BigInt64Array | BigUint64Array, to: Dtype): Typed {
  const out = new TYPED[to](values.length);
  const limits = LIMITS[to];
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (!limits) (out as Float64Array)[i] = Number(v);
    else {
      const kept = v < limits[0] ? limits[0] : v > limits[1] ? limits[1] : v;
      if (out instanceof BigInt64Array || out instanceof BigUint64Array) out[i] = kept;
      else out[i] = Number(kept);
    }
  }
  return out;
}

/** The op: `{name: "cast", dtype}`. */
export function cast(data: OpData): Op {
  only(data, ["dtype"]);
  const to = text(data, "dtype");
  if (!isDtype(to) || to === "float16") {
    throw new OptionError(
      `${data.name}.dtype is ${JSON.stringify(to)}; expected one of ${Object.keys(TYPED).join(", ")}`,
    );
  }
  return pointwise(
    data,
    (input) => ({ dtype: to, channels: input.channels, kind: to === "bool" ? "mask" : input.kind }),
    (block) => withData(block, to, castValues(block.data, block.dtype, to)),
  );
}
