/**
 * N5 arrays: `attributes.json`, big-endian blocks with a header, edge blocks cropped (some writers store them
 * whole; what is past the end does not count). Dimensions are x first in the file, and z first from here on.
 */

import { type Dtype, isDtype, TYPED, type Typed } from "../asread.ts";
import { MetadataError } from "../errors.ts";
import { gunzip } from "../formats/codec.ts";
import type { Attributes } from "./placement.ts";
import type { ReadStore } from "./store.ts";
import type { StoredArray, StoredChunk } from "./stored.ts";

/** Whether attributes describe an array (a group's have no `dimensions`). */
export function isN5Array(attributes: Attributes): boolean {
  return "dimensions" in attributes || "blockSize" in attributes || "dataType" in attributes;
}

type Decode = (bytes: Uint8Array) => Promise<Uint8Array>;

function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const body = new Blob([bytes as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Response(body).arrayBuffer().then((b) => new Uint8Array(b));
}

function decoder(compression: unknown, where: string): Decode {
  const given =
    typeof compression === "object" && compression !== null
      ? (compression as Attributes)
      : { type: compression };
  switch (given.type) {
    case "raw":
      return async (bytes) => bytes;
    case "gzip":
      return given.useZlib === true ? inflate : gunzip;
    case "zstd":
      return async (bytes) =>
        (await import("numcodecs/zstd")).default.fromConfig({ id: "zstd" }).decode(bytes);
    case "blosc":
      return async (bytes) =>
        (await import("numcodecs/blosc")).default
          .fromConfig({ id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 })
          .decode(bytes);
    default:
      throw new MetadataError(
        `${where}: compression ${JSON.stringify(given.type)} cannot be read in a browser; it can be raw, gzip, zstd or blosc`,
      );
  }
}

/** The array that `attributes.json` describes, in the folder `path` of a store. */
export function n5Array(store: ReadStore, path: string, attributes: Attributes): StoredArray {
  const where = `${store.name}/${path ? `${path}/` : ""}attributes.json`;
  const list = (member: string): number[] => {
    const value = attributes[member];
    if (!Array.isArray(value) || value.length === 0 || value.some((n) => !Number.isSafeInteger(n) || n < 1)) {
      throw new MetadataError(
        `${where}: ${member} is ${JSON.stringify(value)}; expected whole numbers of 1 or more`,
      );
    }
    return [...value].reverse();
  };
  const shape = list("dimensions");
  const chunk = list("blockSize");
  const dtype = String(attributes.dataType);
  if (!isDtype(dtype) || dtype === "bool" || dtype === "float16") {
    throw new MetadataError(
      `${where}: dataType is ${JSON.stringify(attributes.dataType)}; expected a number type of N5`,
    );
  }
  if (attributes.isLabelMultiset === true) {
    throw new MetadataError(
      `${where} stores label multisets (several labels a voxel); convert them to uint64 labels`,
    );
  }
  const decode = decoder(attributes.compression ?? attributes.compressionType ?? "raw", where);
  return {
    format: "n5",
    dtype,
    shape,
    chunk,
    attributes,
    async read(index, signal) {
      const key = [...(path ? [path] : []), ...[...index].reverse()].join("/");
      const bytes = await store.get(key, signal);
      return bytes ? block(bytes, dtype, chunk, decode, `${store.name}/${key}`) : null;
    },
  };
}

async function block(
  bytes: Uint8Array,
  dtype: Dtype,
  chunk: readonly number[],
  decode: Decode,
  where: string,
): Promise<StoredChunk> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bad = (what: string) => new MetadataError(`${where}: ${what}; the block is damaged or no N5 block`);
  if (bytes.byteLength < 4) throw bad(`has ${bytes.byteLength} bytes, a header has more`);
  const [mode, ndim] = [view.getUint16(0), view.getUint16(2)];
  if (mode > 1 || ndim !== chunk.length || bytes.byteLength < 4 + 4 * ndim)
    throw bad(`mode ${mode}, ${ndim} dimensions`);
  const shape = Array.from({ length: ndim }, (_, i) => view.getUint32(4 + 4 * (ndim - 1 - i)));
  if (shape.some((n, a) => n > chunk[a]))
    throw bad(`a block of ${shape.join(" x ")} in a grid of ${chunk.join(" x ")}`);
  const raw = await decode(bytes.subarray(4 + 4 * ndim + 4 * mode));
  const count = shape.reduce((a, b) => a * b, 1);
  const width = TYPED[dtype].BYTES_PER_ELEMENT;
  if (raw.byteLength < count * width)
    throw bad(`holds ${raw.byteLength} bytes, ${shape.join(" x ")} ${dtype} need more`);
  return { data: bigEndian(raw.slice(0, count * width), dtype), shape, stride: strides(shape) };
}

function bigEndian(bytes: Uint8Array, dtype: Dtype): Typed {
  const width = TYPED[dtype].BYTES_PER_ELEMENT;
  if (width > 1) for (let i = 0; i < bytes.length; i += width) bytes.subarray(i, i + width).reverse();
  return new TYPED[dtype](bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length / width);
}

/** Strides of C order, in values. */
export function strides(shape: readonly number[]): number[] {
  const out = shape.map(() => 1);
  for (let a = shape.length - 2; a >= 0; a--) out[a] = out[a + 1] * shape[a + 1];
  return out;
}
