/** The half of the benchmark that runs in Chromium, bundled as a page's script: the same measures over HTTP. */

import ortModule from "onnxruntime-web/ort-wasm-simd-threaded.mjs?url";
import ortWasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm?url";
import * as ort from "onnxruntime-web/wasm";
import * as zarr from "zarrita";
import * as engine from "../engine/src/index.ts";
import * as model from "../engine/src/ops/model.ts";
import { modelsOf, passThrough, tiles } from "./measures.mjs";

const at = (file) => new URL(file, location.href).href;
ort.env.wasm.wasmPaths = { mjs: at(ortModule), wasm: at(ortWasm) };
ort.env.wasm.numThreads = 1;

async function get(key) {
  const answer = await fetch(`source/${key}`);
  return answer.ok ? new Uint8Array(await answer.arrayBuffer()) : undefined;
}

function target() {
  const files = new Map();
  return { put: async (key, bytes) => void files.set(key, bytes), end: async () => files.clear() };
}

window.measure = async (n, sample, tiny) => {
  const said = { passThrough: await passThrough({ engine, zarr, n, get, target, rounds: 8 }) };
  for (const [name, each] of Object.entries(modelsOf(model.parseModel, sample, tiny))) {
    const weights = new Uint8Array(await (await fetch(`${name}.onnx`)).arrayBuffer());
    said[`${name}Tiles`] = await tiles({ engine, model, ort, weights, ...each });
  }
  return said;
};
