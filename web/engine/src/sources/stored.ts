/** What a reader of one stored array gives: its shape, and its chunks as values with strides. */

import type { Dtype, Typed } from "../asread.ts";

export interface StoredChunk {
  readonly data: Typed;
  /** Shape and strides (in values) of the chunk, by the array's axes. A cropped chunk is smaller than the grid's. */
  readonly shape: readonly number[];
  readonly stride: readonly number[];
}

/** One array as it is stored, its axes in the order z, y, x of the array (N5's are turned around). */
export interface StoredArray {
  readonly format: "zarr2" | "zarr3" | "n5";
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  readonly attributes: { readonly [member: string]: unknown };
  /** Names that the array gives its axes itself (zarr v3). */
  readonly names?: readonly (string | null)[];
  /** Null where nothing is stored and the fill value is 0. */
  read(index: readonly number[], signal?: AbortSignal): Promise<StoredChunk | null>;
}
