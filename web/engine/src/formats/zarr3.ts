/** zarr v3 as files: `zarr.json`, `<level>/zarr.json`, chunks at `<level>/c/<i>/<j>/<k>`. */

import type { Vec3 } from "../geometry.ts";
import { array3, type Dataset, ome3 } from "../layout.ts";
import type { VolumeInfo } from "../volume.ts";
import type { Codec } from "./codec.ts";
import type { StoreFormat } from "./format.ts";
import { canonicalJson, type Json, Members } from "./json.ts";

export const zarr3: StoreFormat = {
  word: "zarr3",
  group(volume: VolumeInfo, datasets: readonly Dataset[], attributes: readonly (readonly [string, Json])[]) {
    const members = new Members([["ome", ome3(volume, datasets)], ...attributes]);
    return [["zarr.json", canonicalJson({ zarr_format: 3, node_type: "group", attributes: members })]];
  },
  array(volume: VolumeInfo, path: string, level: number, codec: Codec, shape?: Vec3) {
    return [`${path}/zarr.json`, canonicalJson(array3(volume, level, codec.v3, { shape }))];
  },
  chunkKey(path, index) {
    return `${path}/c/${index.join("/")}`;
  },
};
