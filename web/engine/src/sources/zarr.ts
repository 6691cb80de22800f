/** zarr v2 and v3 arrays, read through zarrita. */

import * as zarrita from "zarrita";
import { isDtype, type Typed } from "../asread.ts";
import { MetadataError } from "../errors.ts";
import type { Attributes } from "./placement.ts";
import { type ReadStore, RefusedError } from "./store.ts";
import type { StoredArray } from "./stored.ts";

type Document = { [member: string]: unknown };

/** The 16 bits of a float16 nearest to a number. */
function halfBits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | Math.round(size / 2 ** -24);
  const exponent = Math.floor(Math.log2(size));
  return sign | (((exponent + 15) << 10) + Math.round((size / 2 ** exponent - 1) * 1024));
}

function fillBits(fill: unknown): number {
  if (fill === "NaN") return 0x7e00;
  if (fill === "Infinity") return 0x7c00;
  if (fill === "-Infinity") return 0xfc00;
  if (typeof fill === "string" && /^0x/i.test(fill)) return Number.parseInt(fill, 16);
  return typeof fill === "number" ? halfBits(fill) : 0;
}

/** A document whose float16 is read as uint16 of its bits, which zarrita reads everywhere. */
function halfAsBits(document: Document): { document: Document; half: boolean } {
  const v2 = typeof document.dtype === "string" ? /^([<>|])f2$/.exec(document.dtype) : null;
  if (v2)
    return {
      half: true,
      document: { ...document, dtype: `${v2[1]}u2`, fill_value: fillBits(document.fill_value) },
    };
  if (document.data_type !== "float16") return { half: false, document };
  return {
    half: true,
    document: { ...document, data_type: "uint16", fill_value: fillBits(document.fill_value) },
  };
}

/**
 * The array of a metadata document (`.zarray` or `zarr.json`) in the folder `path` of a store.
 *
 * A chunk that the host refuses (403) in an array whose metadata could be read is a missing one: public buckets that
 * do not list answer so.
 */
export async function zarrArray(
  store: ReadStore,
  path: string,
  document: Document,
  attributes: Attributes,
): Promise<StoredArray> {
  const version = document.zarr_format === 3 ? 3 : 2;
  const file = version === 3 ? "zarr.json" : ".zarray";
  const where = `${store.name}/${path ? `${path}/` : ""}${file}`;
  const base = path ? `${path}/` : "";
  const { document: readable, half } = halfAsBits(withFill(document));
  const text = new TextEncoder().encode(JSON.stringify(readable));
  const missing = (thrown: unknown): undefined => {
    if (thrown instanceof RefusedError) return undefined;
    throw thrown;
  };
  const reader: zarrita.AsyncReadable = {
    async get(key, options) {
      const name = key.slice(1);
      return name === `${base}${file}` ? text : store.get(name, options?.signal).catch(missing);
    },
    ...(store.range && {
      async getRange(key, range, options) {
        const part = "suffixLength" in range ? { suffix: range.suffixLength } : range;
        return store.range!(key.slice(1), part, options?.signal).catch(missing);
      },
    }),
  };
  let array: zarrita.Array<zarrita.DataType, zarrita.AsyncReadable>;
  try {
    const location = zarrita.root(reader).resolve(path);
    const open = version === 3 ? zarrita.open.v3 : zarrita.open.v2;
    array = await open(location, { kind: "array", ...(version === 2 && { attrs: false }) });
  } catch (thrown) {
    const why = (thrown as Error).message;
    const expected = /dtype|data.?type/i.test(why)
      ? "; expected integers of 8 to 64 bits, floats or bool"
      : "";
    throw new MetadataError(`${where}: ${why}${expected}`, { cause: thrown });
  }
  const dtype = half ? "float16" : array.dtype;
  if (!isDtype(dtype)) {
    throw new MetadataError(`${where}: values are ${JSON.stringify(array.dtype)}; expected numbers or bool`);
  }
  return {
    format: version === 3 ? "zarr3" : "zarr2",
    dtype,
    shape: array.shape,
    chunk: array.chunks,
    attributes,
    names: array.dimensionNames,
    async read(index, signal) {
      const { data, shape, stride } = await array.getChunk([...index], { signal });
      // A bool chunk is a view of bytes.
      const bytes = data as unknown as { buffer: ArrayBuffer; byteOffset: number; length: number };
      const values = dtype === "bool" ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length) : data;
      return { data: values as Typed, shape, stride };
    },
  };
}

/** zarr v2 may leave the fill value undefined (null): what is not stored reads as 0, as other readers have it. */
function withFill(document: Document): Document {
  if (document.zarr_format === 3 || (document.fill_value !== null && document.fill_value !== undefined))
    return document;
  return { ...document, fill_value: String(document.dtype).includes("b1") ? false : 0 };
}
