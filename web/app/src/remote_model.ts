/** The engine's end of a model that runs in a worker of its own. */

import { type Model, parseModel } from "@chunkloom/engine/model";
import type { FromModelWorker, Provider, ToModelWorker } from "./messages.ts";

/** Whether this browser has a graphics processor to compute on. One that the processor imitates does not count. */
async function hasGpu(): Promise<boolean> {
  type Adapter = {
    readonly isFallbackAdapter?: boolean;
    readonly info?: { readonly isFallbackAdapter?: boolean };
  };
  const { gpu } = navigator as { gpu?: { requestAdapter(): Promise<Adapter | null> } };
  const adapter = await gpu?.requestAdapter().catch(() => null);
  return !!adapter && !adapter.isFallbackAdapter && !adapter.info?.isFallbackAdapter;
}

/** Threads of a forward: one where the page may not share memory. The engine and the page need a core too. */
function threadCount(): number {
  const cores = navigator.hardwareConcurrency;
  return self.crossOriginIsolated ? Math.min(8, cores > 2 ? cores - 1 : cores) : 1;
}

/**
 * Loads a model in a worker. `provider` "auto" is WebGPU where there is a graphics processor and the model runs there,
 * else WASM. Gives what it runs on, in words, too.
 */
export async function remoteModel(
  description: unknown,
  where: string,
  weights: Uint8Array,
  provider: Provider,
): Promise<{ readonly model: Model; readonly runsOn: string }> {
  parseModel(description, where); // before anything is started
  const threads = threadCount();
  const onWasm = async () => ({
    model: await load("wasm"),
    runsOn: threads > 1 ? `${threads} threads` : "one thread",
  });
  const load = (on: "wasm" | "webgpu") => started(description, where, weights, on, threads);
  if (provider === "wasm" || (provider === "auto" && !(await hasGpu()))) return onWasm();
  try {
    const model = await load("webgpu");
    // Some ops or shapes only fail when they run.
    const { inputChannels, inputShape } = model.description;
    await model.run(new Float32Array(inputChannels * inputShape[0] * inputShape[1] * inputShape[2]));
    return { model, runsOn: "the graphics processor (WebGPU)" };
  } catch (thrown) {
    if (provider === "webgpu") throw thrown;
    return onWasm();
  }
}

async function started(
  description: unknown,
  where: string,
  weights: Uint8Array,
  provider: "wasm" | "webgpu",
  threads: number,
): Promise<Model> {
  const worker = new Worker(new URL("./model.worker.ts", import.meta.url), { type: "module" });
  type Waiting = { resolve: (output: Float32Array) => void; reject: (thrown: Error) => void };
  const waiting = new Map<number, Waiting>();
  let next = 0;
  const send = (message: ToModelWorker, transfer: Transferable[] = []) =>
    worker.postMessage(message, transfer);
  const version = await new Promise<string>((resolve, reject) => {
    const fail = (message: string, id?: number) => {
      if (id === undefined) {
        reject(new Error(message));
        for (const each of waiting.values()) each.reject(new Error(message));
        waiting.clear();
      } else {
        waiting.get(id)?.reject(new Error(message));
        waiting.delete(id);
      }
    };
    worker.addEventListener("error", (event) => fail(`the model's worker stopped: ${event.message}`));
    worker.addEventListener("message", ({ data }: MessageEvent<FromModelWorker>) => {
      if (data.type === "loaded") resolve(data.version);
      else if (data.type === "failed") fail(data.message, data.id);
      else {
        waiting.get(data.id)?.resolve(data.output);
        waiting.delete(data.id);
      }
    });
    send({ type: "load", description, where, weights, provider, threads });
  }).catch((thrown) => {
    worker.terminate();
    throw thrown;
  });

  /** One forward at a time: one that nobody waits for any more is never sent. */
  let turn: Promise<unknown> = Promise.resolve();
  const forward = (input: Float32Array, signal?: AbortSignal) => {
    signal?.throwIfAborted();
    const id = next++;
    return new Promise<Float32Array>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      send({ type: "run", id, input }, [input.buffer]);
    });
  };
  return {
    description: parseModel(description, where),
    version: `${version}-${provider}`,
    run(input, signal) {
      const mine = turn.then(() => forward(input, signal));
      turn = mine.catch(() => {});
      return mine;
    },
    async release() {
      worker.terminate();
      for (const each of waiting.values()) each.reject(new Error("the model was replaced by another"));
      waiting.clear();
    },
  };
}
