/** The model of tests/conformance/model, run by onnxruntime-web's WASM, against SciPy on the whole array. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { asRead } from "../src/asread.ts";
import { Engine, memoryTarget, readBox } from "../src/index.ts";
import { levelFor, loadModel, modelVolume, parseModel } from "../src/ops/model.ts";
import { source, volumeOfCase } from "./formula.ts";

const folder = new URL("../../../tests/conformance/model/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, folder));
const described = JSON.parse(read("model.json").toString());
const weights = new Uint8Array(read("two_kernels.onnx"));
const c = JSON.parse(read("case.json").toString());

describe("an ONNX model", () => {
  test(c.about, async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const volume = await modelVolume(volumeOfCase(c.source), model);
    expect(volume).toMatchObject({ dtype: "float32", channels: c.expected.channels, name: "two-kernels" });
    expect(volume.levels[0].chunk).toEqual(c.expected.chunk);
    const { data } = await readBox(volume, 0, { lo: [0, 0, 0], hi: volume.levels[0].shape });
    const want = asRead(new Uint8Array(Buffer.from(c.expected.values, "base64")), "float32") as Float32Array;
    const far = Array.from(data as Float32Array, (v, i) => Math.abs(v - want[i]));
    expect(Math.max(...far)).toBeLessThanOrEqual(c.tolerance);
    // Past the level's end stands 0, not what the model says there.
    const last = asRead((await volume.chunk(0, [2, 2, 1]))!, "float32");
    expect(last.at(-1)).toBe(0);
    await model.release();
  });

  test("is materialized like any other volume", async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const engine = new Engine({ slots: 2 });
    const chain = {
      input_norm: described.chain.input_norm,
      postprocess: [{ name: "ThresholdPostprocessor", threshold: 0.5 }],
    };
    engine.add(await modelVolume(volumeOfCase(c.source), model, { name: "p", chain }));
    const target = memoryTarget();
    const result = await engine.materialize("p", target, {
      lo: [3, 3, 3],
      hi: [17, 20, 19],
      format: "zarr2",
    });
    expect(result).toMatchObject({ shape: [2, 14, 17, 16], chunk: [2, 8, 10, 12] });
  });

  test("digests tell weights and chains apart", async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const volume = volumeOfCase(c.source);
    const first = await modelVolume(volume, model);
    const other = await modelVolume(volume, { ...model, version: "other" });
    const chain = { input_norm: [], postprocess: [] };
    const bare = await modelVolume(volume, model, { chain });
    expect(new Set([first.digest, other.digest, bare.digest]).size).toBe(3);
  });
});

describe("a model that does not fit is refused, naming what", () => {
  test.each([
    [{ format: "onnx" }, /format is "onnx"; expected "chunkloom-model\/1"/],
    [{ input_shape: [1, 2] }, /input_shape is \[1,2\]; expected three whole numbers/],
    [{ output_shape: [8, 10, 11] }, /output_shape .* even number/],
    [{ output_voxel_size_nm: [4, 4, 4] }, /output_voxel_size_nm .* Python only/],
    [{ channels: [] }, /channels is \[\]/],
    [{ chain: { input_norm: [3], postprocess: [] } }, /chain\.input_norm/],
  ])("%j", (more, message) => {
    expect(() => parseModel({ ...described, ...more })).toThrow(message);
  });

  test("weights that are no model", async () => {
    await expect(loadModel(parseModel(described), new Uint8Array(10))).rejects.toThrow(
      /two_kernels\.onnx: not a model/,
    );
  });

  test("shapes that are not those of the weights", async () => {
    const wrong = parseModel({ ...described, input_shape: [14, 14, 16], output_shape: [10, 10, 12] });
    await expect(loadModel(wrong, weights, { threads: 1 })).rejects.toThrow(
      /two_kernels\.onnx: takes an input of 1 x 1 x 12 x 14 x 16; model\.json says 1 x 1 x 14 x 14 x 16/,
    );
    const less = parseModel({ ...described, output_shape: [6, 8, 10] });
    const volume = await modelVolume(volumeOfCase(c.source), await loadModel(less, weights, { threads: 1 }));
    await expect(volume.chunk(0, [0, 0, 0])).rejects.toThrow(
      /two-kernels: gives 1 x 2 x 8 x 10 x 12 for an input .* says 2 channels of 6 x 8 x 10/,
    );
  });

  test("a volume of other channels", async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const coarse = source([8, 8, 8], [8, 8, 8]);
    await expect(modelVolume(volumeOfCase({ ...coarse, channels: [3] }), model)).rejects.toThrow(
      /takes 1 channels, two-kernels has 3/,
    );
  });
});

describe("the level a model reads", () => {
  const sizes = (list: number[]) => {
    const one = source([40, 40, 40], [8, 8, 8]);
    const levels = list.map((n) => ({ ...one.levels[0], voxel_size_nm: [n, n, n] as const }));
    return volumeOfCase({ ...one, levels });
  };
  test.each([
    [[8, 16], 0],
    [[4, 8, 16], 1],
    [[2, 4, 12], 1],
    [[2, 4], 1],
    [[16, 32], 0],
  ] as [number[], number][])("of %j nm, for 8 nm: %i", (given, level) => {
    expect(levelFor(sizes(given), [8, 8, 8])).toBe(level);
  });

  test("voxels of another size are read as they are, and the volume says so", async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const volume = await modelVolume(sizes([5]), model);
    expect(volume.notes).toEqual([
      "model two-kernels was made for voxels of 8, 8, 8 nm; the level read has 5, 5, 5 nm (z, y, x) and is read voxel for voxel",
    ]);
    expect(volume.levels[0].voxelSize).toEqual([5, 5, 5]);
    expect((await modelVolume(sizes([8]), model)).notes).toBeUndefined();
  });

  test("coarser levels are means of the prediction; ops after it go on the finest", async () => {
    const model = await loadModel(parseModel(described), weights, { threads: 1 });
    const engine = new Engine({ slots: 2 });
    engine.add(volumeOfCase(source([20, 20, 20], [8, 8, 8])));
    const volume = await engine.addModel("v", model, "p");
    expect(volume.levels.map((l) => l.shape)).toEqual([
      [20, 20, 20],
      [10, 10, 10],
      [5, 5, 5],
    ]);
    const fine = (await readBox(volume, 0, { lo: [0, 0, 0], hi: [2, 2, 2] })).data as Float32Array;
    const coarse = (await readBox(volume, 1, { lo: [0, 0, 0], hi: [1, 1, 1] })).data as Float32Array;
    expect(coarse[0]).toBeCloseTo(
      fine.slice(0, 8).reduce((sum, v) => sum + v / 8, 0),
      6,
    );
    const cut = await engine.addPipeline("p", [{ name: "ThresholdPostprocessor", threshold: 0.5 }], "cut");
    expect([cut.kind, cut.dtype, cut.levels.length]).toEqual(["mask", "uint8", 3]);
    const mask = (await readBox(cut, 1, { lo: [0, 0, 0], hi: [10, 10, 10] })).data as Uint8Array;
    expect(Math.max(...mask)).toBeLessThanOrEqual(1);
    expect(engine.metrics.models.done).toBe(0); // read past the queue: nothing was claimed
  });
});
