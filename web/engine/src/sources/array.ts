/** A volume of arrays in memory. */

import { asBytes, type Dtype, isZero, type Typed, widthOf } from "../asread.ts";
import { MetadataError } from "../errors.ts";
import { type Vec3, volumeOf } from "../geometry.ts";
import {
  checkIndex,
  checkInfo,
  chunkBox,
  chunkBytesOf,
  type Kind,
  type Level,
  type Volume,
} from "../volume.ts";

/** One level with its values, C order, channel axes first. */
export interface ArrayLevel {
  readonly data: Typed;
  readonly shape: Vec3;
  readonly chunk?: Vec3;
  readonly voxelSize?: Vec3;
  readonly corner?: Vec3;
}

let made = 0;

/** Makes a volume of arrays, finest first. Chunks are 64³, voxels 1 nm and the corner 0 unless told. */
export function arrayVolume(options: {
  readonly name: string;
  readonly dtype: Dtype;
  readonly levels: readonly ArrayLevel[];
  readonly channels?: readonly number[];
  readonly kind?: Kind;
}): Volume {
  const { name, dtype, channels = [], kind = "image" } = options;
  const levels: Level[] = options.levels.map((level) => ({
    shape: level.shape,
    chunk: level.chunk ?? [64, 64, 64],
    voxelSize: level.voxelSize ?? [1, 1, 1],
    corner: level.corner ?? [0, 0, 0],
  }));
  const info = checkInfo({ name, dtype, kind, channels, levels });
  const planes = volumeOf(channels);
  options.levels.forEach((level, i) => {
    if (level.data.length !== planes * volumeOf(level.shape)) {
      throw new MetadataError(
        `volume ${name}: level ${i} has ${level.data.length} values; its shape ` +
          `${[...channels, ...level.shape].join(" x ")} has ${planes * volumeOf(level.shape)}`,
      );
    }
  });
  made += 1;
  return {
    ...info,
    digest: `array-${made}`,
    async chunk(level, index) {
      checkIndex(info, level, index);
      const bytes = cut(asBytes(options.levels[level].data), info, level, index);
      return isZero(bytes) ? null : bytes;
    },
  };
}

/** One full-size chunk of a whole level's bytes, 0 past the level's end. */
function cut(
  whole: Uint8Array,
  info: Pick<Volume, "name" | "dtype" | "kind" | "channels" | "levels">,
  level: number,
  index: Vec3,
): Uint8Array {
  const { shape, chunk } = info.levels[level];
  const width = widthOf(info.dtype);
  const { lo, hi } = chunkBox(info.levels[level], index);
  const out = new Uint8Array(chunkBytesOf(info, level));
  const run = (hi[2] - lo[2]) * width;
  for (let p = 0; p < volumeOf(info.channels); p++) {
    for (let z = lo[0]; z < hi[0]; z++) {
      for (let y = lo[1]; y < hi[1]; y++) {
        const from = (((p * shape[0] + z) * shape[1] + y) * shape[2] + lo[2]) * width;
        const to = ((p * chunk[0] + z - lo[0]) * chunk[1] + y - lo[1]) * chunk[2] * width;
        out.set(whole.subarray(from, from + run), to);
      }
    }
  }
  return out;
}
