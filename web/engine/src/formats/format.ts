/** What a store format is to the rest of the engine: its metadata files and the names of its chunks. */

import type { Vec3 } from "../geometry.ts";
import type { Dataset } from "../layout.ts";
import type { VolumeInfo } from "../volume.ts";
import type { Codec } from "./codec.ts";
import type { Json } from "./json.ts";

/** The words of the formats the browser engine writes. */
export type FormatWord = "zarr2" | "zarr3";

/** One file: its key in the store and its text. */
export type MetadataFile = readonly [key: string, text: string];

export interface StoreFormat {
  readonly word: FormatWord;
  /** The files of a multiscale group. `attributes` follow the multiscales, in order. */
  group(
    volume: VolumeInfo,
    datasets: readonly Dataset[],
    attributes: readonly (readonly [string, Json])[],
  ): MetadataFile[];
  /** The file of one array. `shape` is the level's unless given. */
  array(volume: VolumeInfo, path: string, level: number, codec: Codec, shape?: Vec3): MetadataFile;
  /** The key of a chunk; `index` has the channel axes first. */
  chunkKey(path: string, index: readonly number[]): string;
}
