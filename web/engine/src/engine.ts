/**
 * Volumes in one place: who asks for a chunk gets it from the cache, or waits in one bounded queue with everybody
 * else. Has no DOM: runs in pages, workers and Node.
 */

import { ByteCache } from "./cache.ts";
import { Demand } from "./demand.ts";
import { ChunkError, OptionError, reason } from "./errors.ts";
import { equivalencesOf, relabelled } from "./finalize.ts";
import type { Vec3 } from "./geometry.ts";
import {
  type Materialized,
  type MaterializeOptions,
  type MaterializeProgress,
  materialize,
  type Produce,
  planOf,
  regionOf,
} from "./materialize.ts";
import type { Op, OpData } from "./op.ts";
import { type Chain, type Model, modelVolume } from "./ops/model.ts";
import { opsOf, resolveOps } from "./ops/registry.ts";
import { chunkKey, kept, pipeline, type StageCache } from "./pipeline.ts";
import type { Target } from "./targets/target.ts";
import { checkIndex, chunkName, type Volume } from "./volume.ts";

const MIB = 2 ** 20;

export interface EngineOptions {
  /** Chunks computed at a time; and chunks of models, of which there is a queue of its own (2 unless told). */
  readonly slots?: number;
  readonly modelSlots?: number;
  /** Chunks that may wait. */
  readonly queueLimit?: number;
  /** Bytes of chunks kept for clients, and of chunks kept between stages. 256 MiB each unless told. */
  readonly cacheBytes?: number;
  readonly stageCacheBytes?: number;
  /** Gets a line for each chunk that failed. */
  readonly log?: (line: string) => void;
}

export interface EngineMetrics {
  readonly demand: Demand["metrics"];
  /** The queue of the chunks of models. */
  readonly models: Demand["metrics"];
  readonly cache: { bytes: number; budget: number; chunks: number; hits: number; misses: number };
  readonly stages: { bytes: number; budget: number; chunks: number; hits: number; misses: number };
}

export class Engine {
  private readonly volumes = new Map<string, Volume>();
  private readonly demand: Demand;
  /** A model's forwards run one at a time: with two slots the next is prepared, and a client waits for one at most. */
  private readonly dear: Demand;
  private readonly cache: ByteCache<Uint8Array | null>;
  private readonly stages: StageCache;
  private readonly log: (line: string) => void;

  constructor(options: EngineOptions = {}) {
    this.demand = new Demand(options);
    this.dear = new Demand({ ...options, slots: options.modelSlots ?? 2 });
    this.cache = new ByteCache(options.cacheBytes ?? 256 * MIB);
    this.stages = new ByteCache(options.stageCacheBytes ?? 256 * MIB);
    this.log = options.log ?? (() => {});
  }

  /** Takes in a volume under its name. Another volume of that name is replaced. */
  add(volume: Volume): Volume {
    this.volumes.set(volume.name, volume);
    return volume;
  }

  /**
   * Takes in the volume that ops make of another, under a name. Whole-volume statistics are resolved first.
   * An op is data (`{name, ...parameters}`) or, as a model, an op itself.
   */
  async addPipeline(
    source: string | Volume,
    ops: readonly (OpData | Op)[],
    name: string,
    signal?: AbortSignal,
  ): Promise<Volume> {
    const below = kept(typeof source === "string" ? this.volume(source) : source, this.stages);
    const make = (volume: Volume, list: readonly Op[]) => pipeline(volume, list, name, this.stages);
    const isOp = (op: OpData | Op): op is Op => typeof (op as Op).apply === "function";
    const made: Op[] = [];
    for (const op of ops) {
      if (isOp(op)) made.push(op);
      else made.push(...opsOf(await resolveOps(make(below, made), [op], (v, list) => make(v, list), signal)));
    }
    return this.add(make(below, made));
  }

  /** Takes in the volume that a model makes of another, under a name. `chain` stands in for the model's own. */
  async addModel(
    source: string | Volume,
    model: Model,
    name: string,
    { chain, signal }: { chain?: Chain; signal?: AbortSignal } = {},
  ): Promise<Volume> {
    const below = typeof source === "string" ? this.volume(source) : source;
    return this.add(await modelVolume(below, model, { name, chain, signal, cache: this.stages }));
  }

  /** Forgets a volume. */
  remove(name: string): void {
    this.volumes.delete(name);
  }

  get names(): string[] {
    return [...this.volumes.keys()];
  }

  /** The volume of a name. */
  volume(name: string): Volume {
    const found = this.volumes.get(name);
    if (!found)
      throw new OptionError(
        `no volume ${JSON.stringify(name)}; there are ${this.names.join(", ") || "none"}`,
      );
    return found;
  }

  /** A chunk for a client: its bytes, or null where all is 0. Failures are `ChunkError`s that name the chunk. */
  async chunk(
    name: string,
    level: number,
    index: Vec3,
    { client = "page", signal }: { client?: string; signal?: AbortSignal } = {},
  ): Promise<Uint8Array | null> {
    const volume = this.volume(name);
    checkIndex(volume, level, index);
    return this.claim(volume, level, index, client, signal);
  }

  private async claim(
    volume: Volume,
    level: number,
    index: Vec3,
    client: string | undefined,
    signal?: AbortSignal,
    rank = level,
  ): Promise<Uint8Array | null> {
    const key = chunkKey(volume.digest, level, index);
    const found = this.cache.get(key);
    if (found !== undefined) return found;
    if (level > 0 && volume.dear && volume.coarsen) {
      // It would hold its place in the queue for many chunks: those are claimed one by one, after finer views' own.
      const finer: Volume["chunk"] = (l, i, s) => this.claim(volume, l, i, client, s, rank);
      const made = await volume.coarsen(level, index, finer, signal);
      if (client !== undefined) this.cache.put(key, made, made.byteLength);
      return made;
    }
    const work = async (inside: AbortSignal) => {
      try {
        return await volume.chunk(level, index, inside);
      } catch (thrown) {
        if (inside.aborted) throw thrown;
        const error = new ChunkError(chunkName(volume.name, level, index), reason(thrown), { cause: thrown });
        this.log(error.message);
        throw error;
      }
    };
    const demand = volume.dear ? this.dear : this.demand;
    const { value, byClient } = await demand.claim(key, { level: rank, client, signal }, work);
    // What only a materialize asked for is not kept: it would push out what people look at.
    if (byClient && !this.cache.has(key)) this.cache.put(key, value, value?.byteLength ?? 0);
    return value;
  }

  /**
   * Writes a volume, or a box of it, to a target. Its chunks are claimed in the background: clients come first, and
   * what only it asked for is not kept. See `materialize.ts` for what is written, and how it fails.
   */
  async materialize(
    volume: string | Volume,
    target: Target,
    options: MaterializeOptions = {},
  ): Promise<Materialized> {
    const which = typeof volume === "string" ? this.volume(volume) : volume;
    const level = options.level ?? 0;
    const produce: Produce = (index, signal) => this.claim(which, level, index, undefined, signal);
    if (!which.merges) return materialize(which, produce, target, options);

    // Objects are joined first, in a pass of their own; progress counts both.
    const region = regionOf(which, options);
    const { needed, total, concurrency } = planOf(region, options);
    let first = 0;
    const onChunk = () => {
      first += 1;
      if (first < needed) {
        options.onProgress?.({ done: 0, total, written: 0, bytes: 0, computed: first, needed: 2 * needed });
      }
    };
    const joined = await equivalencesOf(region, produce, { concurrency, signal: options.signal, onChunk });
    const onProgress = (p: MaterializeProgress) =>
      options.onProgress?.({ ...p, computed: p.computed + needed, needed: 2 * needed });
    return materialize(which, relabelled(region, produce, joined), target, { ...options, onProgress });
  }

  get metrics(): EngineMetrics {
    const of = (cache: ByteCache<Uint8Array | null>) => ({
      bytes: cache.bytes,
      budget: cache.budget,
      chunks: cache.size,
      hits: cache.hits,
      misses: cache.misses,
    });
    return {
      demand: this.demand.metrics,
      models: this.dear.metrics,
      cache: of(this.cache),
      stages: of(this.stages),
    };
  }
}
