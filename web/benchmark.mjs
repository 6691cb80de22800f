/**
 * Side by side, in one run: pass-through materialize against a bare zarrita read and write loop of the same chunks,
 * and model tiles against a bare onnxruntime-web loop. Medians of interleaved rounds. `node benchmark.mjs`, after
 * `npm run build`.
 */

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as ort from "onnxruntime-web";
import * as zarr from "zarrita";
import { arrayVolume, Engine, openVolume } from "./engine/dist/index.js";
import { loadModel, parseModel } from "./engine/dist/ops/model.js";

const ROUNDS = 5;
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "chunkloom-benchmark-"));

async function put(path, bytes) {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, bytes);
}
const folderTarget = (root) => ({ name: root, put: (key, bytes) => put(join(root, key), bytes) });
const read = (root) => async (key) => {
  try {
    return new Uint8Array(await readFile(join(root, key)));
  } catch (thrown) {
    if (thrown.code === "ENOENT") return undefined;
    throw thrown;
  }
};
async function timed(work) {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

// A source of noise, 128 MiB in chunks of 64³, on disk without compression.
const shape = [512, 512, 512];
const data = new Uint8Array(512 ** 3);
for (let i = 0, s = 1; i < data.length; i++) {
  s = (Math.imul(s, 1664525) + 1013904223) | 0;
  data[i] = (s >>> 24) | 1;
}
const source = join(folder, "source");
const maker = new Engine();
maker.add(arrayVolume({ name: "v", dtype: "uint8", levels: [{ data, shape, chunk: [64, 64, 64] }] }));
await maker.materialize("v", folderTarget(source), { format: "zarr2", compression: "none" });

async function bare(round) {
  const get = read(source);
  const array = await zarr.open.v2(zarr.root({ get: (key) => get(key.slice(1)) }).resolve("0"), {
    kind: "array",
  });
  const out = join(folder, `bare-${round}`);
  const indices = [];
  for (let z = 0; z < 8; z++) for (let y = 0; y < 8; y++) for (let x = 0; x < 8; x++) indices.push([z, y, x]);
  const lane = async () => {
    for (let index = indices.shift(); index; index = indices.shift()) {
      const chunk = await array.getChunk(index);
      await put(join(out, "0", ...index.map(String)), chunk.data);
    }
  };
  await Promise.all(Array.from({ length: 4 }, lane));
  await rm(out, { recursive: true });
}

async function ours(round) {
  const out = join(folder, `ours-${round}`);
  const engine = new Engine({ slots: 5 });
  engine.add(await openVolume({ name: "source", get: read(source) }, { name: "v" }));
  await engine.materialize("v", folderTarget(out), { format: "zarr2", compression: "none", concurrency: 4 });
  await rm(out, { recursive: true });
}

const times = { bare: [], ours: [], forward: [], tiles: [] };
for (let round = 0; round < ROUNDS; round++) {
  times.bare.push(await timed(() => bare(round)));
  times.ours.push(await timed(() => ours(round)));
}

// Model tiles: a bare loop of forwards against the volume of the model, source in memory.
const model = at("../tests/conformance/model/");
const description = parseModel({
  ...JSON.parse(await readFile(join(model, "model.json"), "utf8")),
  weights: "two_layers.onnx",
  input_shape: [48, 48, 48],
  output_shape: [42, 42, 42],
});
const weights = new Uint8Array(await readFile(join(model, description.weights)));
const session = await ort.InferenceSession.create(weights, { executionProviders: ["wasm"] });
const loaded = await loadModel(description, weights);
const counts = [3, 3, 3];
const small = counts.map((n, a) => n * description.outputShape[a]);
const voxels = new Uint8Array(small.reduce((a, b) => a * b)).map((_, i) => i % 251);
const level = { data: voxels, shape: small, chunk: [64, 64, 64], voxelSize: description.inputVoxelSize };
const raw = arrayVolume({ name: "raw", dtype: "uint8", levels: [level] });

const input = new Float32Array(description.inputShape.reduce((a, b) => a * b)).fill(0.5);
const tiles = [];
for (let z = 0; z < counts[0]; z++)
  for (let y = 0; y < counts[1]; y++) for (let x = 0; x < counts[2]; x++) tiles.push([z, y, x]);
for (let round = 0; round < ROUNDS; round++) {
  times.forward.push(
    await timed(async () => {
      for (const _ of tiles) {
        await session.run({
          [session.inputNames[0]]: new ort.Tensor("float32", input, [1, 1, ...description.inputShape]),
        });
      }
    }),
  );
  times.tiles.push(
    await timed(async () => {
      const engine = new Engine({ slots: 2 });
      await engine.addModel(raw, loaded, "predicted");
      let next = 0;
      const lane = async () => {
        while (next < tiles.length) await engine.chunk("predicted", 0, tiles[next++]);
      };
      await Promise.all([lane(), lane()]);
    }),
  );
}
await rm(folder, { recursive: true });
const mb = data.length / 1e6;
console.log(
  JSON.stringify(
    {
      materializeMBs: { bare: mb / median(times.bare), ours: mb / median(times.ours) },
      materializeRatio: median(times.bare) / median(times.ours),
      tilesPerSecond: {
        bare: tiles.length / median(times.forward),
        ours: tiles.length / median(times.tiles),
      },
      tilesRatio: median(times.forward) / median(times.tiles),
    },
    null,
    1,
  ),
);
