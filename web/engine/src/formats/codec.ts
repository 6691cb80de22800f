/** How the bytes of a chunk are packed: not at all, or gzip as browsers and Node have it built in. */

import { OptionError } from "../errors.ts";
import type { Json } from "./json.ts";

/** `raw` is an older word for `none`. */
export type Compression = "none" | "gzip" | "raw";

export interface Codec {
  readonly name: "none" | "gzip";
  /** The `compressor` of a `.zarray`. */
  readonly v2: Json;
  /** The codecs that follow `bytes` in a `zarr.json`. */
  readonly v3: readonly Json[];
  encode(bytes: Uint8Array): Promise<Uint8Array>;
}

// What the metadata says, in both engines. CompressionStream has one level of its own; readers do not look at it.
const GZIP_LEVEL = 1;

/** Runs bytes through a compression or decompression stream. */
async function through(bytes: Uint8Array, stream: GenericTransformStream): Promise<Uint8Array> {
  const body = new Blob([bytes as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(stream as ReadableWritablePair);
  return new Uint8Array(await new Response(body).arrayBuffer());
}

/** Bytes packed as one gzip member. */
export function gzip(bytes: Uint8Array): Promise<Uint8Array> {
  return through(bytes, new CompressionStream("gzip"));
}

/** Bytes of a gzip stream, unpacked. */
export function gunzip(bytes: Uint8Array): Promise<Uint8Array> {
  return through(bytes, new DecompressionStream("gzip"));
}

const CODECS: Record<"none" | "gzip", Codec> = {
  none: { name: "none", v2: null, v3: [], encode: async (bytes) => bytes },
  gzip: {
    name: "gzip",
    v2: { id: "gzip", level: GZIP_LEVEL },
    v3: [{ name: "gzip", configuration: { level: GZIP_LEVEL } }],
    encode: gzip,
  },
};

/** The codec of a word. */
export function codecOf(word: string): Codec {
  const name = word === "raw" ? "none" : word;
  if (name !== "none" && name !== "gzip") {
    throw new OptionError(
      `compression is ${JSON.stringify(word)}; the browser engine writes "gzip" or "none"`,
    );
  }
  return CODECS[name];
}
