/** The integer formula of the conformance cases, and volumes of it. See tests/conformance/README.md. */

import { type Dtype, TYPED, type Typed } from "../src/asread.ts";
import { type Vec3, volumeOf } from "../src/geometry.ts";
import { arrayVolume } from "../src/sources/array.ts";
import type { Kind, Volume } from "../src/volume.ts";

export interface Formula {
  /** Factors of channel, z, y, x and level. */
  readonly factors: readonly [number, number, number, number, number];
  readonly offset: number;
  readonly modulus: number;
  readonly subtract: number;
  /** A decimal text, so that 64-bit values stay exact. */
  readonly scale: string;
  readonly divisor: number;
  /** Boxes (of voxels of the level) outside which the value is 0; everywhere where there are none. */
  readonly inside: readonly { readonly lo: Vec3; readonly hi: Vec3 }[];
}

export interface CaseSource {
  readonly name: string;
  readonly dtype: Dtype;
  readonly kind: Kind;
  readonly channels: readonly number[];
  readonly levels: readonly { shape: Vec3; chunk: Vec3; voxel_size_nm: Vec3; corner_nm: Vec3 }[];
  readonly formula: Formula;
}

const PLAIN: Formula = {
  factors: [101, 7, 13, 29, 3],
  offset: 1,
  modulus: 251,
  subtract: 0,
  scale: "1",
  divisor: 1,
  inside: [],
};

/** Every value of a level, C order, channels first. */
export function values(source: CaseSource, level: number): Typed {
  const { factors, offset, modulus, subtract, scale, divisor, inside } = source.formula;
  const { shape } = source.levels[level];
  const out = new TYPED[source.dtype](volumeOf(source.channels) * volumeOf(shape));
  const big = out instanceof BigUint64Array || out instanceof BigInt64Array;
  let at = 0;
  for (let c = 0; c < volumeOf(source.channels); c++) {
    for (let z = 0; z < shape[0]; z++) {
      for (let y = 0; y < shape[1]; y++) {
        for (let x = 0; x < shape[2]; x++, at++) {
          const here = [z, y, x];
          if (inside.length && !inside.some((b) => here.every((v, a) => v >= b.lo[a] && v < b.hi[a])))
            continue;
          const sum = factors[0] * c + factors[1] * z + factors[2] * y + factors[3] * x + factors[4] * level;
          const base = ((sum + offset) % modulus) - subtract;
          if (big) out[at] = BigInt(base) * BigInt(scale);
          else (out as Uint8Array)[at] = (base * Number(scale)) / divisor;
        }
      }
    }
  }
  return out;
}

/** The volume of a case's source. */
export function volumeOfCase(source: CaseSource): Volume {
  return arrayVolume({
    name: source.name,
    dtype: source.dtype,
    kind: source.kind,
    channels: source.channels,
    levels: source.levels.map((level, i) => ({
      data: values(source, i),
      shape: level.shape,
      chunk: level.chunk,
      voxelSize: level.voxel_size_nm,
      corner: level.corner_nm,
    })),
  });
}

/** A one-level uint8 source for tests, with what differs given. */
export function source(
  shape: Vec3,
  chunk: Vec3,
  other: Partial<Omit<CaseSource, "formula">> & { formula?: Partial<Formula> } = {},
): CaseSource {
  return {
    name: "v",
    dtype: "uint8",
    kind: "image",
    channels: [],
    levels: [{ shape, chunk, voxel_size_nm: [8, 8, 8], corner_nm: [0, 0, 0] }],
    ...other,
    formula: { ...PLAIN, ...other.formula },
  };
}
