/** A model in a worker of its own: its forwards hold up neither the page nor the engine, which prepares the next tile. */

import { loadModel, type Model, type OrtModule, parseModel } from "@chunkloom/engine/model";
import type { FromModelWorker, ToModelWorker } from "./messages.ts";

let model: Model | undefined;
const say = (message: FromModelWorker, transfer: Transferable[] = []) =>
  self.postMessage(message, { transfer });

/** onnxruntime-web with WASM alone, or the larger build with WebGPU. Only the one asked for is fetched. */
async function runtime(provider: "wasm" | "webgpu"): Promise<OrtModule> {
  const [ort, mjs, wasm] =
    provider === "webgpu"
      ? await Promise.all([
          import("onnxruntime-web/webgpu"),
          import("onnxruntime-web/ort-wasm-simd-threaded.asyncify.mjs?url"),
          import("onnxruntime-web/ort-wasm-simd-threaded.asyncify.wasm?url"),
        ])
      : await Promise.all([
          import("onnxruntime-web/wasm"),
          import("onnxruntime-web/ort-wasm-simd-threaded.mjs?url"),
          import("onnxruntime-web/ort-wasm-simd-threaded.wasm?url"),
        ]);
  const at = (file: string) => new URL(file, self.location.href).href;
  ort.env.wasm.wasmPaths = { mjs: at(mjs.default), wasm: at(wasm.default) };
  return ort as unknown as OrtModule;
}

self.addEventListener("message", async ({ data }: MessageEvent<ToModelWorker>) => {
  try {
    if (data.type === "load") {
      const { provider, threads } = data;
      model = await loadModel(parseModel(data.description, data.where), data.weights, {
        ort: await runtime(provider),
        providers: [provider],
        threads,
      });
      say({ type: "loaded", version: model.version });
    } else {
      const output = await model!.run(data.input);
      // What the runtime hands out may be a view of its own memory.
      const own = output.byteLength === output.buffer.byteLength ? output : output.slice();
      say({ type: "ran", id: data.id, output: own }, [own.buffer]);
    }
  } catch (thrown) {
    const message = (thrown as Error).message ?? String(thrown);
    say({ type: "failed", id: data.type === "run" ? data.id : undefined, message });
  }
});
