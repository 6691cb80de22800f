/**
 * Writes a volume, or a box of it, to a store: every served chunk is asked for once, and what comes is stitched
 * into the chunks of the array. Pure over `produce`: knows nothing of engines, queues or caches.
 */

import { onAbort } from "./abort.ts";
import { ChunkError, ConflictError, MemoryBudgetError, OptionError, reason, WriteError } from "./errors.ts";
import { type Codec, type Compression, codecOf } from "./formats/codec.ts";
import type { FormatWord, MetadataFile, StoreFormat } from "./formats/format.ts";
import { type Json, sorted } from "./formats/json.ts";
import { zarr2 } from "./formats/zarr2.ts";
import { zarr3 } from "./formats/zarr3.ts";
import { AXES, type Vec3 } from "./geometry.ts";
import { MEMORY_BUDGET, type Plan, planOf } from "./plan.ts";
import { chunkBytes, chunkIndices, type Extent, type Region, regionOf, walkOrder } from "./region.ts";
import { type Scratch, spillingStitcher } from "./spill.ts";
import { type Completed, stitcher } from "./stitch.ts";
import type { Target } from "./targets/target.ts";
import { chunkName, type VolumeInfo } from "./volume.ts";

export { type Plan, planOf } from "./plan.ts";
export {
  chunkBytes,
  chunkIndices,
  chunkRange,
  type Extent,
  mostHeld,
  type Region,
  regionOf,
  splitAxes,
  voxelBox,
  walkOrder,
} from "./region.ts";
export { type Completed, type Stitcher, stitcher } from "./stitch.ts";

/** Computes one served chunk: full-size C-order little-endian bytes, channels first; null where all are 0. */
export type Produce = (index: Vec3, signal: AbortSignal) => Promise<Uint8Array | null>;

/** How far a materialize is. Every count only grows. */
export interface MaterializeProgress {
  /** Chunks of the array finished: written or skipped. */
  readonly done: number;
  /** Chunks of the array in all. */
  readonly total: number;
  /** Chunks of the array written. */
  readonly written: number;
  /** Bytes of the chunks written, as stored. */
  readonly bytes: number;
  /** Served chunks computed, of those needed. */
  readonly computed: number;
  readonly needed: number;
}

export interface MaterializeOptions {
  /** Which level; the finest, 0, unless told. */
  readonly level?: number;
  /** The box in voxels of the level, half-open; absent sides are the level's. Clipped, rounded out to whole voxels. */
  readonly lo?: readonly number[];
  readonly hi?: readonly number[];
  /** "box" (the default): exactly the box. "level": the level's whole shape, the box's chunks in it. */
  readonly extent?: Extent;
  /** "zarr3" unless told. */
  readonly format?: FormatWord;
  /** "gzip" unless told. */
  readonly compression?: Compression;
  /** Whether chunks with only zeros are left out, as they are unless told. */
  readonly skipEmpty?: boolean;
  /** Served chunks asked for at a time, 4 unless told. */
  readonly concurrency?: number;
  readonly signal?: AbortSignal;
  /** Called once after the metadata, then once per served chunk, when what it completed is written. */
  readonly onProgress?: (progress: MaterializeProgress) => void;
  /** More attributes of the group. */
  readonly attributes?: { readonly [name: string]: unknown };
  /** Bytes of memory at most, 1 GiB unless told. Beyond it partial chunks wait on `scratch`. */
  readonly memoryBudget?: number;
  readonly scratch?: Scratch;
  /** Called with the plan before anything is computed or written. */
  readonly onPlan?: (plan: Plan) => void;
}

/** What was written. Shapes have the channel axes first; `lo` and `hi` are the box, in voxels of the level. */
export interface Materialized {
  readonly target: string;
  readonly format: FormatWord;
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  readonly lo: Vec3;
  readonly hi: Vec3;
  readonly done: number;
  readonly written: number;
  readonly skipped: number;
  readonly bytes: number;
  readonly seconds: number;
}

/** The attribute of a group whose run has not ended; taken off last, so that half a store shows it is one. */
export const UNFINISHED = "chunkloom_unfinished";

const FORMATS: Record<FormatWord, StoreFormat> = { zarr2, zarr3 };
const RESERVED = ["multiscales", "ome", UNFINISHED];
const PATH = "0";

/** The format of a word. */
export function formatOf(word: string): StoreFormat {
  if (!Object.hasOwn(FORMATS, word)) {
    throw new OptionError(`format is ${JSON.stringify(word)}; the browser engine writes "zarr2" or "zarr3"`);
  }
  return FORMATS[word as FormatWord];
}

interface Work {
  readonly region: Region;
  readonly plan: Plan;
  readonly format: StoreFormat;
  readonly codec: Codec;
  readonly target: Target;
  readonly options: MaterializeOptions;
}

function parse(volume: VolumeInfo, target: Target, options: MaterializeOptions): Work {
  const { concurrency = 4, memoryBudget = MEMORY_BUDGET } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new OptionError(`concurrency is ${concurrency}; expected a whole number of 1 or more`);
  }
  if (!(memoryBudget > 0)) throw new OptionError(`memoryBudget is ${memoryBudget}; expected bytes above 0`);
  for (const name of Object.keys(options.attributes ?? {})) {
    if (RESERVED.includes(name)) {
      throw new OptionError(`attributes.${name}: the store's own; give it another name`);
    }
  }
  const format = formatOf(options.format ?? "zarr3");
  const codec = codecOf(options.compression ?? "gzip");
  const region = regionOf(volume, options);
  const plan = planOf(region, { concurrency, memoryBudget });
  if (plan.spills && !options.scratch) {
    throw new MemoryBudgetError(
      `materialize ${volume.name}: up to ${plan.held} chunks of ${chunkBytes(region)} bytes wait for their last ` +
        `part, ${plan.heldBytes + plan.inFlightBytes} bytes in all; the budget is ${memoryBudget}. Put lo on chunk ` +
        `edges (multiples of ${region.chunk.join(", ")}) along an axis, raise memoryBudget, or give scratch`,
    );
  }
  return { region, plan, format, codec, target, options };
}

/** The metadata files of a finished store, the group's first. */
export function metadataFiles(
  region: Region,
  format: StoreFormat,
  codec: Codec,
  attributes: { readonly [name: string]: unknown } = {},
): { group: MetadataFile[]; unfinished: MetadataFile[]; array: MetadataFile } {
  const { volume, level } = region;
  const dataset = { path: PATH, level, lo: region.array.lo };
  const more = Object.keys(attributes)
    .sort()
    .map((name) => [name, sorted(attributes[name], `attributes.${name}`)] as const);
  const marked: (readonly [string, Json])[] = [...more, [UNFINISHED, "materialize"]];
  return {
    group: format.group(volume, [dataset], more),
    unfinished: format.group(volume, [dataset], marked),
    array: format.array(volume, PATH, level, codec, region.array.shape),
  };
}

async function put(target: Target, key: string, bytes: Uint8Array): Promise<void> {
  try {
    await target.put(key, bytes);
  } catch (thrown) {
    throw new WriteError(`${key} to ${target.name}`, reason(thrown), { cause: thrown });
  }
}

const asText = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const asUtf8 = (text: string) => new TextEncoder().encode(text);

/** Refuses a target that already holds another array, or the same one elsewhere. */
async function checkTarget(target: Target, files: ReturnType<typeof metadataFiles>): Promise<void> {
  if (!target.get) return;
  const acceptable = (found: string, key: string) =>
    [...files.group, ...files.unfinished, files.array].some(([k, text]) => k === key && text === found);
  for (const [key] of [...files.group, files.array]) {
    const found = await target.get(key);
    if (found && !acceptable(asText(found), key)) {
      throw new ConflictError(
        `${target.name} already holds another store: its ${key} differs from what this run would write; ` +
          `choose an empty place, or remove that store first`,
      );
    }
  }
}

/**
 * Walks the served chunks of a region once each, and writes the chunks of the array as they are completed.
 *
 * Rejects with the signal's reason when it is aborted, with `ChunkError` when a served chunk fails or has the wrong
 * size, with `WriteError` when the target does. By then no write is under way, and none follows.
 */
export async function writeChunks(
  region: Region,
  produce: Produce,
  write: (
    index: Vec3,
    bytes: Uint8Array | null,
    signal: AbortSignal,
  ) => Promise<{ bytes: number; written: boolean }>,
  options: {
    readonly concurrency?: number;
    readonly signal?: AbortSignal;
    readonly onProgress?: (progress: MaterializeProgress) => void;
    readonly plan?: Plan;
    readonly scratch?: Scratch;
  } = {},
): Promise<MaterializeProgress> {
  const { signal, onProgress, scratch } = options;
  const plan = options.plan ?? planOf(region, { concurrency: options.concurrency });
  const size = chunkBytes(region);
  const walk = chunkIndices(region.served.lo, region.served.hi, walkOrder(region));
  const count = { done: 0, written: 0, bytes: 0, computed: 0 };
  const progress = (): MaterializeProgress => ({
    done: count.done,
    total: plan.total,
    written: count.written,
    bytes: count.bytes,
    computed: count.computed,
    needed: plan.needed,
  });

  const inside = new AbortController();
  let failure: { readonly thrown: unknown } | undefined;
  const stop = (thrown: unknown) => {
    failure ??= { thrown };
    inside.abort(thrown);
  };
  const forget = onAbort(signal, () => stop(signal?.reason));
  if (signal?.aborted) stop(signal.reason);

  const finish = async (chunk: Completed) => {
    if (failure) return;
    const { bytes, written } = await write(chunk.index, chunk.bytes, inside.signal);
    count.done += 1;
    count.bytes += bytes;
    if (written) count.written += 1;
  };
  const spilling = plan.spills && scratch ? spillingStitcher(region, plan.partialBytes, scratch) : undefined;
  const stitch = stitcher(region);
  const add = async (index: Vec3, bytes: Uint8Array | null) => {
    if (spilling) return spilling.add(index, bytes, finish);
    for (const chunk of stitch.add(index, bytes)) await finish(chunk);
  };

  async function lane(): Promise<void> {
    while (!failure) {
      const next = walk.next();
      if (next.done) return;
      try {
        const bytes = await untilAborted(ask(next.value), inside.signal);
        if (failure) return;
        count.computed += 1;
        await add(next.value, bytes);
        if (!failure) onProgress?.(progress());
      } catch (thrown) {
        stop(thrown);
      }
    }
  }

  async function ask(index: Vec3): Promise<Uint8Array | null> {
    let bytes: Uint8Array | null;
    try {
      bytes = await produce(index, inside.signal);
    } catch (thrown) {
      throw chunkError(region, index, reason(thrown), thrown);
    }
    if (bytes && bytes.byteLength !== size) {
      const shape = [...region.volume.channels, ...region.chunk].join(" x ");
      const why = `has ${bytes.byteLength} bytes; a chunk of ${shape} ${region.volume.dtype} has ${size}`;
      throw chunkError(region, index, why);
    }
    return bytes;
  }

  await Promise.all(Array.from({ length: plan.concurrency }, lane));
  forget();
  await spilling?.clear();
  if (failure) throw failure.thrown;
  return progress();
}

/**
 * What a promise comes to, or null once the signal is aborted. (`Promise.race` with one promise that lives as long as
 * the run would keep every chunk alive.)
 */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => resolve(null));
    promise.then(resolve, reject).finally(forget);
  });
}

/** A failed chunk, named as the engine's log names it; "level" names the chunk of the store, as it always has. */
function chunkError(region: Region, index: Vec3, why: string, cause?: unknown): ChunkError {
  const { volume, level, extent } = region;
  const name = chunkName(volume.name, level, index);
  if (extent === "box") return new ChunkError(name, why, { cause });
  const channels = volume.channels.map(() => 0);
  const key = [PATH, ...channels, ...index].join("/");
  return new ChunkError(name, why, { cause, message: `chunk ${key} of ${volume.name}: ${why}` });
}

/**
 * Writes a box of a volume to a target as an OME-Zarr group with one array, `0`.
 *
 * Throws before anything is written for options that do not fit (`OptionError`, `BoxError`, `MemoryBudgetError`,
 * `ConflictError`). Later: see `writeChunks`; what was written then stays, marked as unfinished.
 */
export async function materialize(
  volume: VolumeInfo,
  produce: Produce,
  target: Target,
  options: MaterializeOptions = {},
): Promise<Materialized> {
  const began = performance.now();
  const work = parse(volume, target, options);
  const { region, plan, format, codec } = work;
  const { signal, onProgress, scratch } = options;
  const files = metadataFiles(region, format, codec, options.attributes);
  signal?.throwIfAborted();
  await checkTarget(target, files);
  options.onPlan?.(plan);
  signal?.throwIfAborted();

  // A stream whose reader went away never takes another byte: an abort ends it, and with it the write under way.
  const forget = onAbort(signal, () => target.writeOnce && target.abort?.(signal?.reason));
  let result: MaterializeProgress;
  try {
    for (const [key, text] of [...(target.writeOnce ? files.group : files.unfinished), files.array]) {
      signal?.throwIfAborted();
      await put(target, key, asUtf8(text));
    }
    const { total, needed } = plan;
    onProgress?.({ done: 0, total, written: 0, bytes: 0, computed: 0, needed });
    result = await writeChunks(
      region,
      produce,
      (index, bytes, inside) => writeChunk(work, index, bytes, inside),
      {
        signal,
        onProgress,
        plan,
        scratch,
      },
    );
    if (!target.writeOnce) for (const [key, text] of files.group) await put(target, key, asUtf8(text));
    await target.close?.();
  } catch (thrown) {
    await target.abort?.(thrown);
    throw signal?.aborted ? signal.reason : thrown;
  } finally {
    forget();
  }
  return {
    target: target.name,
    format: format.word,
    shape: [...volume.channels, ...region.array.shape],
    chunk: [...volume.channels, ...region.chunk],
    lo: region.lo,
    hi: region.hi,
    done: result.done,
    written: result.written,
    skipped: result.done - result.written,
    bytes: result.bytes,
    seconds: (performance.now() - began) / 1000,
  };
}

async function writeChunk(work: Work, index: Vec3, bytes: Uint8Array | null, signal: AbortSignal) {
  if (bytes === null && work.options.skipEmpty !== false) return { bytes: 0, written: false };
  const { region, format, codec, target } = work;
  const stored = await codec.encode(bytes ?? new Uint8Array(chunkBytes(region)));
  signal.throwIfAborted(); // the run stopped while it was packed
  const key = format.chunkKey(PATH, [...region.volume.channels.map(() => 0), ...AXES.map((a) => index[a])]);
  await put(target, key, stored);
  return { bytes: stored.byteLength, written: true };
}
