/** zarr v2 as files: `.zgroup`, `.zattrs`, `<level>/.zarray`, chunks at `<level>/<i>/<j>/<k>`. */

import type { Vec3 } from "../geometry.ts";
import { array2, type Dataset, multiscales2 } from "../layout.ts";
import type { VolumeInfo } from "../volume.ts";
import type { Codec } from "./codec.ts";
import type { StoreFormat } from "./format.ts";
import { canonicalJson, type Json, Members } from "./json.ts";

export const zarr2: StoreFormat = {
  word: "zarr2",
  group(volume: VolumeInfo, datasets: readonly Dataset[], attributes: readonly (readonly [string, Json])[]) {
    return [
      [".zgroup", canonicalJson({ zarr_format: 2 })],
      [
        ".zattrs",
        canonicalJson(new Members([["multiscales", multiscales2(volume, datasets)], ...attributes])),
      ],
    ];
  },
  array(volume: VolumeInfo, path: string, level: number, codec: Codec, shape?: Vec3) {
    return [`${path}/.zarray`, canonicalJson(array2(volume, level, codec.v2, shape))];
  },
  chunkKey(path, index) {
    return `${path}/${index.join("/")}`;
  },
};
