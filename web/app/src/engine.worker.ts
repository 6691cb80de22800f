/** The engine in a worker: the page stays responsive whatever is computed. */

import {
  asked,
  chunkAnswer,
  directoryScratch,
  directoryStore,
  directoryTarget,
  Engine,
  httpStore,
  httpTarget,
  httpUrl,
  openVolume,
  opfsFolder,
  opsOf,
  pipeline,
  planOf,
  pyramid,
  regionOf,
  type Target,
  takesPyramid,
  type Volume,
  zipTarget,
} from "@chunkloom/engine";
import { type Model, parseModel } from "@chunkloom/engine/model";
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
import { remoteModel } from "./remote_model.ts";

const engine = new Engine({
  // Most of a chunk's time is the host's: more at a time than there are cores.
  slots: 8,
  log: (line) => console.warn(line),
});
const runs = new Map<number, AbortController>();
type Loaded = { readonly model: Model; readonly runsOn: string };
const models = new Map<string, Promise<Loaded>>();

const say = (message: FromWorker, transfer: Transferable[] = []) => self.postMessage(message, { transfer });

function shown(volume: Volume): Shown {
  const { name, dtype, kind, channels, levels, digest, notes = [], dear = false } = volume;
  const viewed = { viewed: viewedName(volume), viewedAs: viewedAs(volume) };
  return { name, dtype, kind, channels, levels, digest, notes, dear, ...viewed };
}

const viewedName = ({ name, digest }: Volume) => `${name}-${digest.slice(0, 12)}`;

/** Dtypes that Neuroglancer shows; others are cast for it, by name. */
const VIEWED: Record<string, string> = {
  bool: "uint8",
  float16: "float32",
  float64: "float32",
  int64: "int32", // labels of it are shown as they are
};

const viewedAs = ({ dtype, kind }: Volume) =>
  dtype === "int64" && kind === "labels" ? undefined : VIEWED[dtype];

/** Adds the volume as the viewer gets it, in a number type it can show and with coarser levels, for its old self. */
async function addViewed(volume: Volume): Promise<Shown> {
  const to = viewedAs(volume);
  const name = viewedName(volume);
  for (const old of engine.names) if (old !== name && old.startsWith(`${volume.name}-`)) engine.remove(old);
  // A viewer asks for every coarser level too: of what takes long, one is enough.
  const seen = volume.dear && volume.fine ? volume.fine : volume;
  const cast = pipeline(seen, to ? opsOf([{ name: "cast", dtype: to }]) : [], name);
  engine.add(takesPyramid(cast) ? pyramid(cast, undefined, volume.dear ? 1 : undefined) : cast);
  return shown(volume);
}

function modelOf({ url, files, provider }: ModelAsked): Promise<Loaded> {
  const key = JSON.stringify([provider, url ?? files?.description]);
  let found = models.get(key);
  if (!found) {
    // A model holds memory, and a worker: of those asked for before, none is kept.
    for (const old of models.values()) old.then(({ model }) => model.release()).catch(() => {});
    models.clear();
    found = load(url, files, provider);
    found.catch(() => models.delete(key));
    models.set(key, found);
  }
  return found;
}

async function load(
  url: string | undefined,
  files: ModelAsked["files"],
  provider: ModelAsked["provider"],
): Promise<Loaded> {
  if (files) return remoteModel(files.description, "model.json", files.weights, provider);
  const at = httpUrl(new URL(url ?? "", self.location.href).href);
  const text = new TextDecoder().decode(await fetched(at));
  let description: { readonly weights?: unknown };
  try {
    description = JSON.parse(text);
  } catch {
    throw new Error(`${at}: is not JSON; expected a model.json, which names the file of weights beside it`);
  }
  const { weights } = parseModel(description, at);
  return remoteModel(description, at, await fetched(new URL(weights, at).href), provider);
}

async function fetched(address: string): Promise<Uint8Array> {
  const cut = address.lastIndexOf("/");
  const found = await httpStore(address.slice(0, cut)).get(decodeURIComponent(address.slice(cut + 1)));
  if (!found) throw new Error(`${address}: there is no such file`);
  return found;
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
    return addViewed(volume);
  },
  async model(asked) {
    const { model, runsOn } = await modelOf(asked);
    const { name, inputShape, outputShape, inputVoxelSize, channels, inputNorm, postprocess } =
      model.description;
    const chain = { input_norm: inputNorm, postprocess };
    return { name, inputShape, outputShape, voxelSize: inputVoxelSize, channels, chain, runsOn };
  },
  async computed(chain, asked) {
    const raw = engine.volume("raw");
    const volume = asked
      ? await engine.addModel(raw, (await modelOf(asked)).model, "computed", { chain })
      : await engine.addPipeline(raw, [...chain.input_norm, ...chain.postprocess], "computed");
    return addViewed(volume);
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
    return addViewed(engine.add(await openVolume(directoryStore(folder), { name: "saved" })));
  },
  async cancel(id) {
    runs.get(id)?.abort();
  },
  async looking(is) {
    if (is === !hidden) return;
    if (is) hidden?.shownAgain();
    else lookedAt.abort();
    lookedAt = new AbortController();
    hidden = is ? undefined : gate();
  },
  async metrics() {
    return engine.metrics;
  },
};

/** Aborted when the viewer is looked at no more; there is a gate while it is not. */
let lookedAt = new AbortController();
let hidden: ReturnType<typeof gate> | undefined;

function gate() {
  let shownAgain = () => {};
  const opened = new Promise<void>((resolve) => {
    shownAgain = resolve;
  });
  return { opened, shownAgain };
}

/** A chunk for the viewer. While nobody looks it is not claimed, but its answer stays open: viewers do not ask twice. */
async function chunkLookedAt(
  what: Extract<ReturnType<typeof asked>, { kind: "chunk" }>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  for (;;) {
    await hidden?.opened;
    signal.throwIfAborted();
    const look = lookedAt.signal;
    try {
      return await chunkAnswer(engine, what, "viewer", AbortSignal.any([signal, look]));
    } catch (thrown) {
      if (!look.aborted || signal.aborted) throw thrown;
    }
  }
}

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
    const bytes = (await chunkLookedAt(what, controller.signal)).slice(); // the cache keeps its own
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
