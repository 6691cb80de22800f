/** A volume of stored arrays: which axes are space, which channel, which are selected; chunks turned to c, z, y, x. */

import { asBytes, isZero, type Typed, zeros } from "../asread.ts";
import { MetadataError, OptionError } from "../errors.ts";
import { AXES, type Vec3, vec3, volumeOf } from "../geometry.ts";
import { checkIndex, checkInfo, chunkBox, type Kind, type Level, type Volume } from "../volume.ts";
import { strides } from "./n5.ts";
import type { StoredArray, StoredChunk } from "./stored.ts";

/** One array with the place it has in the world. */
export interface PlacedArray {
  readonly array: StoredArray;
  readonly axes: readonly string[];
  readonly voxelSize: Vec3;
  readonly corner: Vec3;
}

/** Entries of axes other than z, y, x to read: `{ c: 1, t: 0 }`. A channel axis that is not named is kept whole. */
export type Select = { readonly [axis: string]: number };

const SPACE = ["z", "y", "x"];

interface Mapped extends PlacedArray {
  /** The array's axes that are z, y, x; the channel axis, or -1; the chosen entry of every other axis. */
  readonly space: readonly number[];
  readonly channel: number;
  readonly chosen: ReadonlyMap<number, number>;
}

function mapAxes(placed: PlacedArray, select: Select, where: string): Mapped {
  const { axes, array } = placed;
  const space = SPACE.map((name) => axes.indexOf(name));
  if (space.includes(-1)) {
    throw new MetadataError(`${where}: its axes are ${axes.join(", ")}; a volume needs z, y and x`);
  }
  for (const name of Object.keys(select)) {
    if (SPACE.includes(name) || !axes.includes(name)) {
      throw new OptionError(
        `select.${name}: ${where} has no such axis to choose from; its axes are ${axes.join(", ")}`,
      );
    }
  }
  const chosen = new Map<number, number>();
  let channel = -1;
  axes.forEach((name, i) => {
    if (SPACE.includes(name)) return;
    const wanted = select[name];
    if (wanted === undefined && name === "c") channel = i;
    else if (wanted === undefined && array.shape[i] > 1) {
      throw new OptionError(`${where}: axis ${name} has ${array.shape[i]} entries; choose one with select`);
    } else {
      const entry = wanted ?? 0;
      if (!Number.isInteger(entry) || entry < 0 || entry >= array.shape[i]) {
        throw new OptionError(
          `select.${name} is ${wanted}; ${where} has ${array.shape[i]} entries, counted from 0`,
        );
      }
      chosen.set(i, entry);
    }
  });
  return { ...placed, space, channel, chosen };
}

/** The volume of placed arrays, finest first. */
export function datasetVolume(options: {
  readonly name: string;
  readonly kind: Kind;
  readonly digest: string;
  readonly arrays: readonly PlacedArray[];
  readonly select?: Select;
}): Volume {
  const { name, kind, digest, arrays, select = {} } = options;
  const mapped = arrays.map((placed, i) => mapAxes(placed, select, `${name}, level ${i}`));
  const [{ array: first, channel }] = mapped;
  const levels: Level[] = mapped.map(({ array, space, voxelSize, corner }) => ({
    shape: vec3((a) => array.shape[space[a]]),
    chunk: vec3((a) => array.chunk[space[a]]),
    voxelSize,
    corner,
  }));
  mapped.forEach(({ array, channel: its }, i) => {
    const count = (which: StoredArray, axis: number) => (axis < 0 ? 1 : which.shape[axis]);
    if (array.dtype !== first.dtype || count(array, its) !== count(first, channel)) {
      throw new MetadataError(
        `${name}: level ${i} is ${array.dtype} with ${count(array, its)} channels, level 0 ${first.dtype} with ` +
          `${count(first, channel)}; all levels of a volume are alike`,
      );
    }
  });
  const channels = channel < 0 ? [] : [first.shape[channel]];
  const info = checkInfo({ name, dtype: first.dtype, kind, channels, levels });
  return {
    ...info,
    digest,
    async chunk(level, index, signal) {
      checkIndex(info, level, index);
      const from = mapped[level];
      const step = from.channel < 0 ? 1 : from.array.chunk[from.channel];
      const parts = Math.ceil(volumeOf(channels) / step);
      const read = (part: number) => from.array.read(storedIndex(from, index, part), signal);
      if (parts === 1) {
        const stored = await read(0);
        const whole = stored && inOrder(from) ? asServed(stored, channels, levels[level], index) : undefined;
        if (whole || !stored) return whole && !isZero(whole) ? whole : null;
        return placed(info, levels[level], [stored], from, index);
      }
      const all = await Promise.all(Array.from({ length: parts }, (_, part) => read(part)));
      return placed(info, levels[level], all, from, index);
    },
  };
}

/** The index of the stored chunk that holds a chunk's voxels, and of its channels the `part`th lot. */
function storedIndex({ array, space, channel, chosen }: Mapped, index: Vec3, part: number): number[] {
  return array.shape.map((_, axis) => {
    if (axis === channel) return part;
    const entry = chosen.get(axis);
    return entry === undefined ? index[space.indexOf(axis)] : Math.floor(entry / array.chunk[axis]);
  });
}

/** Whether the array's axes are those of the volume: channel first, then z, y, x, and no other. */
function inOrder({ space, channel, chosen }: Mapped): boolean {
  const before = channel < 0 ? 0 : 1;
  return chosen.size === 0 && channel <= 0 && space.every((axis, a) => axis === before + a);
}

/** The bytes of a stored chunk that is laid out as chunks are served, and lies whole inside the level. */
function asServed(
  stored: StoredChunk,
  channels: readonly number[],
  level: Level,
  index: Vec3,
): Uint8Array | undefined {
  const wanted = [...channels, ...level.chunk];
  const { shape, stride, data } = stored;
  const inside = AXES.every((a) => (index[a] + 1) * level.chunk[a] <= level.shape[a]);
  if (!inside || shape.length !== wanted.length || data.length !== volumeOf(wanted)) return undefined;
  const order = strides(wanted);
  return wanted.every((n, a) => shape[a] === n && stride[a] === order[a]) ? asBytes(data) : undefined;
}

/** A chunk as it is served, of stored ones; null where all is 0. */
function placed(
  info: Pick<Volume, "dtype" | "channels">,
  level: Level,
  parts: readonly (StoredChunk | null)[],
  from: Mapped,
  index: Vec3,
): Uint8Array | null {
  const out = zeros(info.dtype, volumeOf(info.channels) * volumeOf(level.chunk));
  parts.forEach((stored, part) => {
    if (stored) putPart(from, level, index, part, stored, out);
  });
  const bytes = asBytes(out);
  return isZero(bytes) ? null : bytes;
}

/** Puts the voxels of one stored chunk, those inside the level, where they belong. */
function putPart(
  from: Mapped,
  level: Level,
  index: Vec3,
  part: number,
  stored: StoredChunk,
  out: Typed,
): void {
  const { array, space, channel, chosen } = from;
  const { data, shape, stride } = stored;
  let base = 0;
  for (const [axis, entry] of chosen) base += (entry % array.chunk[axis]) * stride[axis];
  const box = chunkBox(level, index);
  const n = AXES.map((a) => Math.min(box.hi[a] - box.lo[a], shape[space[a]]));
  const s = space.map((axis) => stride[axis]);
  const first = channel < 0 ? 0 : part * array.chunk[channel];
  const planes = channel < 0 ? 1 : Math.min(shape[channel], array.shape[channel] - first);
  const [cz, cy, cx] = level.chunk;
  const to = out as { [i: number]: number | bigint };
  for (let p = 0; p < planes; p++) {
    const plane = base + (channel < 0 ? 0 : p * stride[channel]);
    for (let z = 0; z < n[0]; z++) {
      for (let y = 0; y < n[1]; y++) {
        const source = plane + z * s[0] + y * s[1];
        const target = (((first + p) * cz + z) * cy + y) * cx;
        if (s[2] === 1) (out as Uint8Array).set((data as Uint8Array).subarray(source, source + n[2]), target);
        else for (let x = 0; x < n[2]; x++) to[target + x] = data[source + x * s[2]];
      }
    }
  }
}
