/** The engine in a worker: the page stays responsive whatever is computed. */

import {
  asked,
  chunkAnswer,
  directoryScratch,
  directoryStore,
  directoryTarget,
  Engine,
  httpTarget,
  type OpData,
  openVolume,
  opfsFolder,
  pipeline,
  planOf,
  regionOf,
  type Target,
  type Volume,
  zipTarget,
} from "@chunkloom/engine";
import { loadModel, type Model, type OrtModule, parseModel } from "@chunkloom/engine/model";
import ortModule from "onnxruntime-web/ort-wasm-simd-threaded.mjs?url";
import ortWasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm?url";
import * as ort from "onnxruntime-web/wasm";
import type {
  FromWorker,
  Kept,
  Methods,
  ModelAsked,
  RunAsked,
  Shown,
  Source,
  ToServiceWorker,
  ToWorker,
} from "./messages.ts";

ort.env.wasm.wasmPaths = {
  mjs: new URL(ortModule, self.location.href).href,
  wasm: new URL(ortWasm, self.location.href).href,
};

const engine = new Engine({
  slots: Math.max(2, navigator.hardwareConcurrency ?? 2),
  log: (line) => console.warn(line),
});
const runs = new Map<number, AbortController>();
const models = new Map<string, Promise<Model>>();

const say = (message: FromWorker, transfer: Transferable[] = []) => self.postMessage(message, { transfer });

function shown({ name, dtype, kind, channels, levels, digest }: Volume): Shown {
  return { name, dtype, kind, channels, levels, digest, viewedAs: VIEWED[dtype] };
}

/** Dtypes that Neuroglancer shows; others are cast for it, by name. */
const VIEWED: Record<string, string> = {
  bool: "uint8",
  float16: "float32",
  float64: "float32",
  int64: "int32",
};

/** Adds the volume as the viewer gets it, under `<name>-shown`. */
async function addViewed(volume: Volume): Promise<void> {
  const to = VIEWED[volume.dtype];
  const name = `${volume.name}-shown`;
  if (to) await engine.addPipeline(volume, [{ name: "cast", dtype: to }], name);
  else engine.add(pipeline(volume, [], name));
}

function modelOf({ url, files }: ModelAsked): Promise<Model> {
  const key = url ?? JSON.stringify(files?.description);
  let found = models.get(key);
  if (!found) {
    found = load(url, files);
    found.catch(() => models.delete(key));
    models.set(key, found);
  }
  return found;
}

async function load(url: string | undefined, files: ModelAsked["files"]): Promise<Model> {
  const runtime = ort as unknown as OrtModule;
  if (files) return loadModel(parseModel(files.description), files.weights, { ort: runtime });
  const fetched = async (address: string) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address}: the host answered HTTP ${answer.status}`);
    return answer;
  };
  const at = new URL(url ?? "", self.location.href).href;
  const description = parseModel(await (await fetched(at)).json(), at);
  const weights = await fetched(new URL(description.weights, at).href);
  return loadModel(description, new Uint8Array(await weights.arrayBuffer()), { ort: runtime });
}

const options = (run: RunAsked) => ({ level: run.level, lo: run.lo, hi: run.hi, extent: run.extent });

async function targetOf(id: number, kept: Kept): Promise<Target> {
  if (kept.kind === "folder") return directoryTarget(kept.folder);
  if (kept.kind === "opfs") return directoryTarget(await opfsFolder(kept.path), `OPFS ${kept.path}`);
  if (kept.kind === "put") return httpTarget(kept.url);
  const { target, stream } = zipTarget("download");
  say({ type: "stream", run: id, stream }, [stream]);
  return target;
}

const methods: Methods = {
  async open(source: Source, select) {
    const store = "url" in source ? source.url : directoryStore(source.folder);
    const volume = engine.add(await openVolume(store, { name: "raw", select }));
    await addViewed(volume);
    return shown(volume);
  },
  async computed(name: string, ops: readonly OpData[], asked: ModelAsked | undefined) {
    let volume = engine.volume("raw");
    if (asked) volume = await engine.addModel(volume, await modelOf(asked), name, { chain: asked.chain });
    if (ops.length || !asked) volume = await engine.addPipeline(volume, ops, name);
    engine.add(volume);
    await addViewed(volume);
    return shown(volume);
  },
  async plan(run) {
    return planOf(regionOf(engine.volume(run.volume), options(run)));
  },
  async materialize(id, run, kept) {
    const controller = new AbortController();
    runs.set(id, controller);
    // A name of its own: other pages of this origin may be running too.
    const scratches = await opfsFolder("chunkloom-scratch");
    const scratch = crypto.randomUUID();
    try {
      return await engine.materialize(run.volume, await targetOf(id, kept), {
        ...options(run),
        format: run.format,
        compression: run.compression,
        signal: controller.signal,
        scratch: directoryScratch(await scratches.getDirectoryHandle(scratch, { create: true })),
        onProgress: (progress) => say({ type: "progress", run: id, progress }),
      });
    } finally {
      await scratches.removeEntry(scratch, { recursive: true }).catch(() => {});
      runs.delete(id);
    }
  },
  async saved(kept) {
    if (kept.kind !== "folder" && kept.kind !== "opfs")
      throw new Error("only what lies in a folder can be opened again");
    const folder = kept.kind === "folder" ? kept.folder : await opfsFolder(kept.path);
    const volume = engine.add(await openVolume(directoryStore(folder), { name: "saved" }));
    await addViewed(volume);
    return shown(volume);
  },
  async cancel(id) {
    runs.get(id)?.abort();
  },
  async metrics() {
    return engine.metrics;
  },
};

/** One request of a viewer, over the port that the service worker made for it. */
async function virtual(path: string, port: MessagePort): Promise<void> {
  const reply = (message: ToServiceWorker, transfer: Transferable[] = []) =>
    port.postMessage(message, transfer);
  const controller = new AbortController();
  port.onmessage = ({ data }) => data.type === "cancel" && controller.abort();
  const what = asked(engine, path);
  if (what.kind === "answer") {
    const { status, type, body } = what.answer;
    reply({ type: "whole", status, contentType: type, body });
    return;
  }
  reply({ type: "begin" });
  try {
    const bytes = (await chunkAnswer(engine, what, "viewer", controller.signal)).slice(); // the cache keeps its own
    reply({ type: "bytes", body: bytes }, [bytes.buffer]);
  } catch (thrown) {
    reply({ type: "failed", message: (thrown as Error).message });
  }
}

self.addEventListener("message", async ({ data, ports }: MessageEvent<ToWorker>) => {
  if (data.type === "virtual") {
    await virtual(data.path, ports[0]);
    return;
  }
  const { id, method, args } = data;
  try {
    const value = await (methods[method] as (...all: readonly unknown[]) => Promise<unknown>)(...args);
    say({ type: "result", id, value });
  } catch (thrown) {
    const { name, message } = thrown as Error;
    say({ type: "error", id, name, message });
  }
});
