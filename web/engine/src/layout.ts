/**
 * What the metadata files of a store hold: OME-Zarr 0.4 (zarr v2) and 0.5 (zarr v3) groups, and their arrays.
 * Objects are made with their members in the order they are written in; `formats/` turns them into files.
 *
 * A translation is where the **centre** of voxel 0 is, so a box's is the level's moved by `lo` voxels.
 */

import { type Dtype, widthOf } from "./asread.ts";
import type { Json } from "./formats/json.ts";
import { cornerAt, omeTranslation, type Vec3, vec3 } from "./geometry.ts";
import type { VolumeInfo } from "./volume.ts";

/** One array of a group: its path, the level it shows and, where it starts inside the level, at which voxel. */
export interface Dataset {
  readonly path: string;
  readonly level: number;
  readonly lo?: Vec3;
}

const DTYPES_V2: Record<Dtype, string> = {
  bool: "|b1",
  int8: "|i1",
  uint8: "|u1",
  int16: "<i2",
  uint16: "<u2",
  int32: "<i4",
  uint32: "<u4",
  int64: "<i8",
  uint64: "<u8",
  float16: "<f2",
  float32: "<f4",
  float64: "<f8",
};

/** Names of the channel axes: `c`, or `c0`, `c1`, … where there are several. */
export function channelNames(volume: VolumeInfo): string[] {
  return volume.channels.map((_, i) => (volume.channels.length === 1 ? "c" : `c${i}`));
}

/** Every axis with its type and unit, as OME-Zarr names them. */
export function axes(volume: VolumeInfo): Json[] {
  return [
    ...channelNames(volume).map((name) => ({ name, type: "channel" })),
    ...["z", "y", "x"].map((name) => ({ name, type: "space", unit: "nanometer" })),
  ];
}

/** The scale of a level, nm per voxel; 1 along channel axes. */
export function scale(volume: VolumeInfo, level: number): number[] {
  return [...volume.channels.map(() => 1), ...volume.levels[level].voxelSize];
}

/** Where the centre of voxel `lo` of a level is, nm; 0 along channel axes. */
export function translation(volume: VolumeInfo, level: number, lo: Vec3 = [0, 0, 0]): number[] {
  const grid = volume.levels[level];
  const corner = cornerAt(grid, lo);
  return [...volume.channels.map(() => 0), ...vec3((a) => omeTranslation(corner[a], grid.voxelSize[a]))];
}

function datasets(volume: VolumeInfo, arrays: readonly Dataset[]): Json[] {
  return arrays.map(
    ({ path, level, lo }): Json => ({
      path,
      coordinateTransformations: [
        { type: "scale", scale: scale(volume, level) },
        { type: "translation", translation: translation(volume, level, lo) },
      ],
    }),
  );
}

/** The `multiscales` of a zarr v2 group (OME-Zarr 0.4). */
export function multiscales2(volume: VolumeInfo, arrays: readonly Dataset[]): Json {
  return [
    {
      version: "0.4",
      name: volume.name,
      axes: axes(volume),
      datasets: datasets(volume, arrays),
    },
  ];
}

/** The `ome` attribute of a zarr v3 group (OME-Zarr 0.5). */
export function ome3(volume: VolumeInfo, arrays: readonly Dataset[]): Json {
  return {
    version: "0.5",
    multiscales: [
      {
        name: volume.name,
        axes: axes(volume),
        datasets: datasets(volume, arrays),
      },
    ],
  };
}

function fillValue(dtype: Dtype): Json {
  return dtype === "bool" ? false : 0;
}

/** The `.zarray` of a level, or of an array of another shape with the level's chunks. Shapes are without channels. */
export function array2(
  volume: VolumeInfo,
  level: number,
  compressor: Json,
  shape: Vec3 = volume.levels[level].shape,
): Json {
  return {
    zarr_format: 2,
    shape: [...volume.channels, ...shape],
    chunks: [...volume.channels, ...volume.levels[level].chunk],
    dtype: DTYPES_V2[volume.dtype],
    compressor,
    fill_value: fillValue(volume.dtype),
    order: "C",
    filters: null,
    dimension_separator: "/",
  };
}

/** The `zarr.json` of a level, or of an array of another shape with the level's chunks. `codecs` follow `bytes`. */
export function array3(
  volume: VolumeInfo,
  level: number,
  codecs: readonly Json[],
  { shape = volume.levels[level].shape }: { readonly shape?: Vec3 } = {},
): Json {
  return {
    zarr_format: 3,
    node_type: "array",
    shape: [...volume.channels, ...shape],
    data_type: volume.dtype,
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: [...volume.channels, ...volume.levels[level].chunk] },
    },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: fillValue(volume.dtype),
    // The spec leaves `endian` out for single-byte types.
    codecs: [
      widthOf(volume.dtype) > 1 ? { name: "bytes", configuration: { endian: "little" } } : { name: "bytes" },
      ...codecs,
    ],
    attributes: {},
    dimension_names: [...channelNames(volume), "z", "y", "x"],
  };
}
