/** What an op is: a computation that a pipeline puts between a volume and whoever reads it. */

import { type Dtype, halfToNumber, type Typed } from "./asread.ts";
import type { Vec3 } from "./geometry.ts";
import type { Block, Boundary } from "./read.ts";
import type { Kind, VolumeInfo } from "./volume.ts";

/** An op as data: its name and its parameters, flat. */
export interface OpData {
  readonly name: string;
  readonly [parameter: string]: unknown;
}

/** What an op makes of a volume, before any voxel is read. */
export interface Outcome {
  readonly dtype: Dtype;
  readonly channels: readonly number[];
  readonly kind: Kind;
}

/** Where in the volume an op works. */
export interface Place {
  readonly level: number;
  /** Voxels of the finest level per voxel of this one. */
  readonly factor: Vec3;
  /** The chunk of the output. */
  readonly index: Vec3;

  /** Voxels of a full chunk. */
  readonly chunkVoxels: number;
  readonly signal?: AbortSignal;
}

/**
 * A computation on blocks. `apply` gets a block padded by the halo on both sides and gives back only the voxels
 * whose whole context was there. It never writes into its input.
 */
export interface Op {
  readonly data: OpData;
  /** Voxels of context on each side, at a level whose voxels are `factor` finest ones. */
  halo(factor: Vec3): Vec3;
  /** What stands outside the level where the halo reaches over it. */
  readonly boundary: Boundary;
  outcome(input: VolumeInfo): Outcome;
  apply(block: Block, place: Place): Block | Promise<Block>;
  /** "coarse": a coarse level is the op on coarse data. "fine": only the finest level is computed. */
  readonly levels: "coarse" | "fine";
  /** The chunk shape it computes, where it computes whole chunks of one shape (a model), also over the level's end. */
  readonly chunk?: Vec3;
  /** Whether its ids continue in the next chunk, so that a materialize needs a second pass (`finalize.ts`). */
  readonly merges?: boolean;
  /** Whether a chunk takes long. */
  readonly dear?: boolean;
}

/** An op that looks at one voxel at a time. */
export function pointwise(
  data: OpData,
  outcome: (input: VolumeInfo) => Outcome,
  apply: (block: Block) => Block,
): Op {
  return { data, halo: () => [0, 0, 0], boundary: "zero", outcome, apply, levels: "coarse" };
}

/** A new float array with the values of a block: float32 where that holds them (up to 16 bits, float32), else float64. */
export function workingCopy(block: Block): Float32Array | Float64Array {
  const { data, dtype } = block;
  if (dtype === "float16") return Float32Array.from(data as Uint16Array, halfToNumber);
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    const out = new Float64Array(data.length);
    for (let i = 0; i < out.length; i++) out[i] = Number(data[i]);
    return out;
  }
  if (dtype === "int32" || dtype === "uint32" || dtype === "float64") {
    return new Float64Array(data as Exclude<Typed, BigInt64Array | BigUint64Array>);
  }
  return new Float32Array(data as Exclude<Typed, BigInt64Array | BigUint64Array>);
}

/** A block with other values of the same places. */
export function withData(block: Block, dtype: Dtype, data: Typed): Block {
  return { ...block, dtype, data };
}
