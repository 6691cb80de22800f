/** What the page and the engine's worker say to each other. Both ends import this; it holds types alone. */

import type { Materialized, MaterializeProgress, OpData, Plan, Vec3 } from "@chunkloom/engine";

export type Source = { readonly url: string } | { readonly folder: FileSystemDirectoryHandle };

/** A volume as the page shows it. */
export interface Shown {
  readonly name: string;
  readonly dtype: string;
  readonly kind: string;
  readonly channels: readonly number[];
  readonly levels: readonly { shape: Vec3; chunk: Vec3; voxelSize: Vec3; corner: Vec3 }[];
  readonly digest: string;
  /** Whether a chunk takes long to compute. */
  readonly dear: boolean;
  /** The name under which the viewer asks for it: another whenever its values change. */
  readonly viewed: string;
  /** The number type that Neuroglancer gets where it cannot show the volume's own. */
  readonly viewedAs?: string;
  /** What a person should know of it, and of the model that made it. */
  readonly notes: readonly string[];
}

export type Provider = "auto" | "wasm" | "webgpu";

/** A model as the page shows it, before anything is computed. */
export interface ModelShown {
  readonly name: string;
  readonly inputShape: Vec3;
  readonly outputShape: Vec3;
  readonly voxelSize: Vec3;
  readonly channels: readonly string[];
  readonly chain: ChainAsked;
  /** In words: threads, or the graphics processor. */
  readonly runsOn: string;
}

export interface ChainAsked {
  readonly input_norm: readonly OpData[];
  readonly postprocess: readonly OpData[];
}

export interface ModelAsked {
  /** Address of `model.json`, or the files themselves. */
  readonly url?: string;
  readonly files?: { readonly description: unknown; readonly weights: Uint8Array };
  readonly provider: Provider;
}

export type Kept =
  | { readonly kind: "folder"; readonly folder: FileSystemDirectoryHandle }
  | { readonly kind: "opfs"; readonly path: string }
  | { readonly kind: "zip" }
  | { readonly kind: "put"; readonly url: string };

export interface RunAsked {
  readonly volume: string;
  readonly level: number;
  readonly lo: readonly number[];
  readonly hi: readonly number[];
  readonly format: "zarr2" | "zarr3";
  readonly compression: "gzip" | "none";
  readonly extent: "box" | "level";
}

/** The worker's methods. Each is called by a message and answered by one. */
export interface Methods {
  open(source: Source, select: Record<string, number>): Promise<Shown>;
  /** Loads a model, once. */
  model(asked: ModelAsked): Promise<ModelShown>;
  /** Makes the volume `computed` of `raw`: by a model with a chain around it, or by the chain's steps alone. */
  computed(chain: ChainAsked, model: ModelAsked | undefined): Promise<Shown>;
  plan(run: RunAsked): Promise<Plan>;
  /** A zip comes as a stream, which the page saves; other targets are written by the worker. */
  materialize(id: number, run: RunAsked, target: Kept): Promise<Materialized>;
  /** Opens what was saved into a folder or this browser's storage, as the volume `saved`. */
  saved(target: Kept): Promise<Shown>;
  cancel(id: number): Promise<void>;
  /** Whether the viewer is looked at. While it is not, its chunks wait: a run has the engine to itself. */
  looking(is: boolean): Promise<void>;
  metrics(): Promise<unknown>;
}

export type ToWorker =
  | {
      readonly type: "call";
      readonly id: number;
      readonly method: keyof Methods;
      readonly args: readonly unknown[];
    }
  | { readonly type: "virtual"; readonly path: string };

export type FromWorker =
  | { readonly type: "result"; readonly id: number; readonly value: unknown }
  | { readonly type: "error"; readonly id: number; readonly name: string; readonly message: string }
  | { readonly type: "progress"; readonly run: number; readonly progress: MaterializeProgress }
  | { readonly type: "stream"; readonly run: number; readonly stream: ReadableStream<Uint8Array> };

export type ToModelWorker =
  | {
      readonly type: "load";
      readonly description: unknown;
      readonly where: string;
      readonly weights: Uint8Array;
      readonly provider: "wasm" | "webgpu";
      readonly threads: number;
    }
  | { readonly type: "run"; readonly id: number; readonly input: Float32Array };

export type FromModelWorker =
  | { readonly type: "loaded"; readonly version: string }
  | { readonly type: "ran"; readonly id: number; readonly output: Float32Array }
  | { readonly type: "failed"; readonly id?: number; readonly message: string };

/** What the service worker gets over the port of a request. The first message says how the answer begins. */
export type ToServiceWorker =
  | {
      readonly type: "whole";
      readonly status: number;
      readonly contentType: string;
      readonly body: Uint8Array | null;
    }
  | { readonly type: "begin" }
  | { readonly type: "bytes"; readonly body: Uint8Array }
  | { readonly type: "failed"; readonly message: string };
