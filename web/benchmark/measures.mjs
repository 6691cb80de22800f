/**
 * What is measured, wherever it runs: ours beside a bare loop, rounds interleaved, medians. The runtime gives the
 * libraries, how a file is read and written, and the model.
 */

export const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

async function timed(work) {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

/** Seconds of both, in turn, each first in every second round: what one leaves behind is not always the other's. */
async function inTurn(bare, ours, rounds) {
  const times = { bare: [], ours: [] };
  await bare();
  await ours();
  for (let round = 0; round < rounds; round++) {
    for (const which of round % 2 ? ["ours", "bare"] : ["bare", "ours"]) {
      times[which].push(await timed(which === "ours" ? ours : bare));
    }
  }
  return times;
}

/** Noise in chunks of 64³, no byte 0, as a volume. */
export function noise(engine, n) {
  const data = new Uint8Array(n ** 3);
  for (let i = 0, s = 1; i < data.length; i++) {
    s = (Math.imul(s, 1664525) + 1013904223) | 0;
    data[i] = (s >>> 24) | 1;
  }
  return engine.arrayVolume({
    name: "v",
    dtype: "uint8",
    levels: [{ data, shape: [n, n, n], chunk: [64, 64, 64] }],
  });
}

/** MB/s of a materialize that passes chunks through, and of a loop that reads and writes the same chunks by zarrita. */
export async function passThrough({ engine, zarr, n, get, target, rounds }) {
  async function bare() {
    const array = await zarr.open.v2(zarr.root({ get: (key) => get(key.slice(1)) }).resolve("0"), {
      kind: "array",
    });
    const { put, end } = target();
    const indices = [...engine.chunkIndices([0, 0, 0], [n / 64, n / 64, n / 64])];
    const lane = async () => {
      for (let index = indices.shift(); index; index = indices.shift()) {
        await put(`0/${index.join("/")}`, (await array.getChunk(index)).data);
      }
    };
    await Promise.all([lane(), lane(), lane(), lane()]);
    await end();
  }
  async function ours() {
    const made = new engine.Engine({ slots: 5 });
    made.add(await engine.openVolume({ name: "source", get }, { name: "v" }));
    const { put, end } = target();
    const options = { format: "zarr2", compression: "none", concurrency: 4 };
    await made.materialize("v", { name: "out", put }, options);
    await end();
  }
  const times = await inTurn(bare, ours, rounds);
  const mb = n ** 3 / 1e6;
  return {
    bareMBs: mb / median(times.bare),
    oursMBs: mb / median(times.ours),
    ratio: median(times.bare) / median(times.ours),
  };
}

/** Tiles per second of a volume of a model, and of a loop of its forwards alone. The raw data is in memory. */
export async function tiles({ engine, model, ort, description, weights, counts, rounds }) {
  const providers = { executionProviders: ["wasm"] };
  const session = await ort.InferenceSession.create(weights, providers);
  const loaded = await model.loadModel(description, weights, { ort });
  const shape = counts.map((n, a) => n * description.outputShape[a]);
  const data = new Uint8Array(shape.reduce((a, b) => a * b)).map((_, i) => i % 251);
  const level = { data, shape, chunk: [64, 64, 64], voxelSize: description.inputVoxelSize };
  const raw = engine.arrayVolume({ name: "raw", dtype: "uint8", levels: [level] });
  const dims = [1, 1, ...description.inputShape];
  const input = new Float32Array(dims.reduce((a, b) => a * b)).fill(0.5);
  const indices = [...engine.chunkIndices([0, 0, 0], counts)];
  async function bare() {
    for (const _ of indices) {
      await session.run({ [session.inputNames[0]]: new ort.Tensor("float32", input, dims) });
    }
  }
  async function ours() {
    const made = new engine.Engine();
    await made.addModel(raw, loaded, "predicted");
    const left = [...indices];
    const lane = async () => {
      for (let index = left.shift(); index; index = left.shift()) await made.chunk("predicted", 0, index);
    };
    await Promise.all([lane(), lane()]);
  }
  const times = await inTurn(bare, ours, rounds);
  return {
    barePerSecond: indices.length / median(times.bare),
    oursPerSecond: indices.length / median(times.ours),
    ratio: median(times.bare) / median(times.ours),
  };
}

/** The models that tiles are measured with: the bundled one on tiles that take half a second, and a tiny one. */
export function modelsOf(parseModel, sample, tiny) {
  return {
    sample: {
      description: parseModel({ ...sample, input_shape: [72, 72, 72], output_shape: [32, 32, 32] }),
      counts: [2, 2, 2],
      rounds: 3,
    },
    tiny: {
      description: parseModel({
        ...tiny,
        ...{ weights: "two_layers.onnx", input_shape: [48, 48, 48], output_shape: [42, 42, 42] },
      }),
      counts: [3, 3, 3],
      rounds: 5,
    },
  };
}
