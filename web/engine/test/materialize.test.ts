/** `materialize` over a fake producer: what is asked for, in which order, what is held, written and reported. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import * as zarr from "zarrita";
import { asRead } from "../src/asread.ts";
import {
  type ChunkError,
  chunkBytes,
  chunkIndices,
  chunkRange,
  type FormatWord,
  type MaterializeOptions,
  type MaterializeProgress,
  materialize,
  memoryTarget,
  mostHeld,
  planOf,
  regionOf,
  splitAxes,
  stitcher,
  type Target,
  type Vec3,
  type Volume,
  voxelBox,
  walkOrder,
} from "../src/index.ts";
import { arrayVolume } from "../src/sources/array.ts";
import { type CaseSource, source, values, volumeOfCase } from "./formula.ts";

const BIG = source([37, 50, 41], [16, 16, 16]);
const OFF = { lo: [3, 5, 2], hi: [30, 44, 39] };
const FORMATS: FormatWord[] = ["zarr2", "zarr3"];

/** Counts what is asked for, and waits a different number of turns for each chunk. */
function producer(volume: Volume, level = 0, turns: (index: Vec3) => number = () => 0) {
  const asked: string[] = [];
  const signals: AbortSignal[] = [];
  const produce = async (index: Vec3, signal: AbortSignal) => {
    asked.push(index.join("."));
    signals.push(signal);
    for (let i = 0; i < turns(index); i++) await new Promise((resolve) => setTimeout(resolve, 0));
    return volume.chunk(level, index);
  };
  return { produce, asked, signals };
}

async function run(from: CaseSource, options: MaterializeOptions = {}, turns?: (index: Vec3) => number) {
  const volume = volumeOfCase(from);
  const { produce, asked } = producer(volume, options.level, turns);
  const target = memoryTarget();
  const progress: MaterializeProgress[] = [];
  const result = await materialize(volume, produce, target, {
    compression: "none",
    onProgress: (p) => progress.push(p),
    ...options,
  });
  return { volume, asked, files: target.files, progress, result };
}

const json = (files: Map<string, Uint8Array>, key: string) =>
  JSON.parse(new TextDecoder().decode(files.get(key)));

/** A store as zarrita reads it: shape and every value. */
async function readBack(files: Map<string, Uint8Array>) {
  const store = { get: async (key: string) => files.get(key.slice(1)) };
  const array = await zarr.open(zarr.root(store).resolve("0"), { kind: "array" });
  const { data, shape } = await zarr.get(array);
  return { array, shape, data: Array.from(data as unknown as ArrayLike<number | bigint>) };
}

/** The values of a box of a level, cut from the whole array: channels first. */
function cut(from: CaseSource, level: number, lo: number[], hi: number[]): (number | bigint)[] {
  const [nz, ny, nx] = from.levels[level].shape;
  const whole = values(from, level);
  const out: (number | bigint)[] = [];
  const planes = from.channels.reduce((a, b) => a * b, 1);
  for (let c = 0; c < planes; c++)
    for (let z = lo[0]; z < hi[0]; z++)
      for (let y = lo[1]; y < hi[1]; y++)
        for (let x = lo[2]; x < hi[2]; x++) out.push(whole[((c * nz + z) * ny + y) * nx + x]);
  return out;
}

describe("metadata", () => {
  const two: CaseSource = {
    ...source([1, 1, 1], [1, 1, 1]),
    levels: [
      { shape: [40, 44, 36], chunk: [16, 16, 16], voxel_size_nm: [8, 8, 8], corner_nm: [0, 0, 0] },
      { shape: [20, 22, 18], chunk: [8, 8, 8], voxel_size_nm: [16, 16, 16], corner_nm: [-4, -4, -4] },
    ],
  };

  test("zarr2: a box has its own shape and translation, the level's scale and chunks, path 0", async () => {
    const { files } = await run(two, { format: "zarr2", level: 1, lo: [1, 0, 2], hi: [19, 22, 18] });
    const [multiscale] = json(files, ".zattrs").multiscales;
    expect(multiscale.version).toBe("0.4");
    expect(multiscale.datasets).toEqual([
      {
        path: "0",
        coordinateTransformations: [
          { type: "scale", scale: [16, 16, 16] },
          { type: "translation", translation: [20, 4, 36] },
        ],
      },
    ]);
    expect(json(files, "0/.zarray")).toMatchObject({ shape: [18, 22, 16], chunks: [8, 8, 8], fill_value: 0 });
  });

  test("zarr3: the same", async () => {
    const { files } = await run(two, { format: "zarr3", level: 1, lo: [1, 0, 2], hi: [19, 22, 18] });
    const { version, multiscales } = json(files, "zarr.json").attributes.ome;
    expect(version).toBe("0.5");
    expect(multiscales[0].datasets[0].coordinateTransformations[1].translation).toEqual([20, 4, 36]);
    expect(json(files, "0/zarr.json")).toMatchObject({
      shape: [18, 22, 16],
      chunk_grid: { configuration: { chunk_shape: [8, 8, 8] } },
    });
  });

  test.each(FORMATS)("%s: origin 4, voxel 8, lo 1, 3, 2 is at 12, 28, 20", async (format) => {
    const { files } = await run(BIG, { format, lo: [1, 3, 2], hi: [9, 9, 9] });
    const group = format === "zarr2" ? json(files, ".zattrs") : json(files, "zarr.json").attributes.ome;
    expect(group.multiscales[0].datasets[0].coordinateTransformations[1].translation).toEqual([12, 28, 20]);
  });

  test("the default is a box in zarr3 with gzip, empty chunks left out", async () => {
    const { files, result } = await run(BIG, { ...OFF, compression: undefined });
    expect(json(files, "0/zarr.json").codecs[1].name).toBe("gzip");
    expect(result).toMatchObject({ format: "zarr3", shape: [27, 39, 37], lo: OFF.lo, hi: OFF.hi });
  });

  test("the level's extent keeps the level's shape and translation", async () => {
    const { files, result } = await run(BIG, { ...OFF, extent: "level", format: "zarr2" });
    expect(json(files, "0/.zarray").shape).toEqual([37, 50, 41]);
    const [dataset] = json(files, ".zattrs").multiscales[0].datasets;
    expect(dataset.coordinateTransformations[1].translation).toEqual([4, 4, 4]);
    expect(result).toMatchObject({ shape: [37, 50, 41], lo: [0, 0, 0], hi: [32, 48, 41] });
  });

  test("channel axes are whole and first, scale 1, translation 0, no unit", async () => {
    const { files } = await run({ ...BIG, channels: [2] }, { ...OFF, format: "zarr2" });
    expect(json(files, "0/.zarray")).toMatchObject({ shape: [2, 27, 39, 37], chunks: [2, 16, 16, 16] });
    const [multiscale] = json(files, ".zattrs").multiscales;
    expect(multiscale.axes[0]).toEqual({ name: "c", type: "channel" });
    expect(multiscale.datasets[0].coordinateTransformations).toEqual([
      { type: "scale", scale: [1, 8, 8, 8] },
      { type: "translation", translation: [0, 28, 44, 20] },
    ]);
  });

  test("attributes are kept; the store's own names are refused", async () => {
    const { files } = await run(BIG, { attributes: { model: "m", threshold: 0.5 } });
    expect(json(files, "zarr.json").attributes).toMatchObject({ model: "m", threshold: 0.5 });
    await expect(run(BIG, { attributes: { ome: 1 } })).rejects.toThrow(/attributes\.ome/);
    await expect(run(BIG, { attributes: { a: { b: Number.NaN } } })).rejects.toThrow(/attributes\.a\.b/);
  });

  test("numbers are those of the volume: real, not rounded", async () => {
    const level = {
      shape: [9, 9, 9],
      chunk: [4, 4, 4],
      voxel_size_nm: [50, 4.6, 4.6],
      corner_nm: [-25, -2.3, -2.3],
    };
    const { files } = await run(
      { ...BIG, levels: [level as unknown as CaseSource["levels"][0]] },
      { lo: [1, 3, 3] },
    );
    const [dataset] = json(files, "zarr.json").attributes.ome.multiscales[0].datasets;
    expect(dataset.coordinateTransformations[0].scale).toEqual([50, 4.6, 4.6]);
    expect(dataset.coordinateTransformations[1].translation).toEqual([50, 13.8, 13.8]);
  });
});

describe("voxelBox and chunkRange", () => {
  test("clip to the level and round out to whole voxels", () => {
    expect(voxelBox([10, 20, 30], [-3, 2.5, 4], [99, 7.1, 5.0001])).toEqual({
      lo: [0, 2, 4],
      hi: [10, 8, 6],
    });
    expect(voxelBox([10, 20, 30])).toEqual({ lo: [0, 0, 0], hi: [10, 20, 30] });
  });

  test("a box outside, empty or not of numbers is refused", () => {
    expect(() => voxelBox([10, 20, 30], [10, 0, 0])).toThrow(/outside the level or empty along z/);
    expect(() => voxelBox([10, 20, 30], [0, 5, 0], [10, 5, 30])).toThrow(/along y/);
    expect(() => voxelBox([10, 20, 30], [0, Number.NaN, 0])).toThrow(/expected three numbers/);
    expect(() => voxelBox([10, 20, 30], [0, 0])).toThrow(/expected three numbers/);
  });

  test("chunks touched, as a half-open range", () => {
    const level = { shape: [37, 50, 41] as Vec3, chunk: [16, 16, 16] as Vec3 };
    expect(chunkRange(level, OFF.lo, OFF.hi)).toEqual({ lo: [0, 0, 0], hi: [2, 3, 3] });
    expect(chunkRange(level)).toEqual({ lo: [0, 0, 0], hi: [3, 4, 3] });
    expect(chunkRange(level, [16, 16, 16], [32, 32, 32])).toEqual({ lo: [1, 1, 1], hi: [2, 2, 2] });
  });

  test("chunkIndices runs in C order, or with the axes in another order", () => {
    expect([...chunkIndices([0, 1, 0], [2, 2, 2])]).toEqual([
      [0, 1, 0],
      [0, 1, 1],
      [1, 1, 0],
      [1, 1, 1],
    ]);
    expect([...chunkIndices([0, 1, 0], [2, 2, 2], [2, 1, 0])]).toEqual([
      [0, 1, 0],
      [1, 1, 0],
      [0, 1, 1],
      [1, 1, 1],
    ]);
  });
});

describe.each(FORMATS)("an unaligned box, %s", (format) => {
  // 36 served chunks arrive out of turn, three at a time.
  const from = source([60, 60, 60], [16, 16, 16]);
  const box = { lo: [3, 5, 2], hi: [35, 60, 45] }; // 24 chunks of the box from the 36
  const turns = ([z, y, x]: Vec3) => (z * 7 + y * 3 + x * 5) % 4;

  test("asks for each served chunk once, and reads back equal", async () => {
    const { asked, files, result } = await run(from, { ...box, format, concurrency: 3 }, turns);
    expect(asked.length).toBe(36);
    expect(new Set(asked).size).toBe(asked.length);
    const { shape, data } = await readBack(files);
    expect(shape).toEqual([32, 55, 43]);
    expect(data).toEqual(cut(from, 0, box.lo, box.hi));
    expect(result.done).toBe(24);
  });

  test("every report only grows, and the last is complete", async () => {
    const { progress, asked } = await run(from, { ...box, format, concurrency: 3 }, turns);
    expect(asked.length).toBe(36);
    expect(progress.length).toBe(1 + 36);
    expect(progress[0]).toEqual({ done: 0, total: 24, written: 0, bytes: 0, computed: 0, needed: 36 });
    for (let i = 1; i < progress.length; i++) {
      for (const key of ["done", "written", "bytes", "computed"] as const) {
        expect(progress[i][key]).toBeGreaterThanOrEqual(progress[i - 1][key]);
      }
    }
    expect(progress.at(-1)).toMatchObject({ done: 24, total: 24, computed: 36, needed: 36 });
  });

  test("the far corner chunk is full-size, zeros past the box", async () => {
    const { files } = await run(BIG, { ...OFF, format });
    const bytes = files.get(format === "zarr2" ? "0/1/2/2" : "0/c/1/2/2")!;
    expect(bytes.length).toBe(16 ** 3);
    const whole = values(BIG, 0);
    for (let z = 0; z < 16; z++)
      for (let y = 0; y < 16; y++)
        for (let x = 0; x < 16; x++) {
          const at = [OFF.lo[0] + 16 + z, OFF.lo[1] + 32 + y, OFF.lo[2] + 32 + x];
          const inside = at.every((v, a) => v < OFF.hi[a]);
          const want = inside ? whole[(at[0] * 50 + at[1]) * 41 + at[2]] : 0;
          expect(bytes[(z * 16 + y) * 16 + x]).toBe(want);
        }
  });

  test("packed with gzip it reads back equal", async () => {
    const { files } = await run(BIG, { ...OFF, format, compression: "gzip" });
    expect((await readBack(files)).data).toEqual(cut(BIG, 0, OFF.lo, OFF.hi));
  });

  test("channels read back equal", async () => {
    const from = source([37, 50, 41], [16, 16, 16], {
      dtype: "float32",
      channels: [2],
      formula: { subtract: 100, divisor: 8 },
    });
    const { files } = await run(from, { ...OFF, format });
    const { shape, data } = await readBack(files);
    expect(shape).toEqual([2, 27, 39, 37]);
    expect(data).toEqual(cut(from, 0, OFF.lo, OFF.hi));
  });
});

describe("an aligned box", () => {
  test("stores the served chunks byte for byte, and holds nothing", async () => {
    const { volume, files } = await run(BIG, { lo: [16, 16, 0], hi: [32, 48, 32] });
    const region = regionOf(volume, { lo: [16, 16, 0], hi: [32, 48, 32] });
    expect(mostHeld(region)).toBe(0);
    const stitch = stitcher(region);
    for (const index of chunkIndices(region.served.lo, region.served.hi, walkOrder(region))) {
      const bytes = await volume.chunk(0, index);
      const [completed] = stitch.add(index, bytes);
      expect(completed.bytes).toBe(bytes); // passed on, not copied
      expect(Buffer.from(files.get(`0/c/${completed.index.join("/")}`)!)).toEqual(Buffer.from(bytes!));
    }
    expect(stitch.mostHeld).toBe(0);
  });

  test("that ends inside chunks short of the level's end is cropped", async () => {
    const { files } = await run(BIG, { lo: [16, 16, 16], hi: [35, 40, 39] });
    expect((await readBack(files)).data).toEqual(cut(BIG, 0, [16, 16, 16], [35, 40, 39]));
    const last = files.get("0/c/1/1/1")!;
    expect(last[15 * 256]).toBe(0);
    expect(last[8 * 16]).toBe(0);
  });

  test("that ends with the level keeps what was served past the level's end", async () => {
    const volume = volumeOfCase(BIG);
    const target = memoryTarget();
    const served = new Uint8Array(16 ** 3).fill(7); // not zero past the level's end
    await materialize(volume, async () => served, target, { compression: "none", lo: [32, 32, 32] });
    expect(Buffer.from(target.files.get("0/c/0/0/0")!)).toEqual(Buffer.from(served));
    const box = memoryTarget();
    await materialize(volume, async () => served, box, {
      compression: "none",
      lo: [32, 32, 32],
      hi: [36, 50, 41],
    });
    expect(box.files.get("0/c/0/0/0")![4 * 256]).toBe(0); // a box that ends short of it does not
  });
});

describe("a box smaller than a chunk", () => {
  test.each([
    ["inside one served chunk", [3, 4, 5], [9, 11, 12], 1],
    ["across the corner of eight", [14, 14, 14], [19, 20, 18], 8],
  ] as const)("%s", async (_, lo, hi, served) => {
    const { asked, files, result } = await run(BIG, { lo: [...lo], hi: [...hi] });
    expect(asked.length).toBe(served);
    expect(result.done).toBe(1);
    expect((await readBack(files)).data).toEqual(cut(BIG, 0, [...lo], [...hi]));
  });
});

describe.each(FORMATS)("the whole level, %s", (format) => {
  const odd = source([23, 31, 27], [8, 10, 12]);
  test.each([
    ["no box", {}],
    ["an exact box", { lo: [0, 0, 0], hi: [23, 31, 27] }],
    ["a box past the edges", { lo: [-1, -5, -9], hi: [99, 99, 99] }],
  ])("%s is the level's extent, file for file and byte for byte", async (_, box) => {
    const level = await run(odd, { format, extent: "level" });
    const whole = await run(odd, { format, ...box });
    expect([...whole.files.keys()].sort()).toEqual([...level.files.keys()].sort());
    for (const [key, bytes] of level.files) {
      expect([key, Buffer.compare(whole.files.get(key)!, bytes)]).toEqual([key, 0]);
    }
  });
});

describe("the level's extent", () => {
  test("asks in C order, one report per chunk", async () => {
    const { asked, progress, result } = await run(BIG, { ...OFF, extent: "level", concurrency: 1 });
    expect(asked).toEqual([...chunkIndices([0, 0, 0], [2, 3, 3])].map((i) => i.join(".")));
    expect(progress.map((p) => p.done)).toEqual([...Array(19).keys()]);
    expect(progress.map((p) => p.computed)).toEqual([...Array(19).keys()]);
    expect(result).toMatchObject({ done: 18, written: 18, skipped: 0 });
  });

  test("several boxes go into one store", async () => {
    const volume = volumeOfCase(BIG);
    const target = memoryTarget();
    const { produce } = producer(volume);
    await materialize(volume, produce, target, { extent: "level", lo: [0, 0, 0], hi: [16, 16, 16] });
    await materialize(volume, produce, target, { extent: "level", lo: [20, 20, 20], hi: [37, 50, 41] });
    expect(target.files.has("0/c/0/0/0") && target.files.has("0/c/2/3/2")).toBe(true);
    const { data } = await readBack(target.files);
    const whole = values(BIG, 0);
    expect(data[0]).toBe(whole[0]);
    expect(data.at(-1)).toBe(whole.at(-1));
  });
});

describe("empty chunks", () => {
  const sparse = source([37, 50, 41], [16, 16, 16], {
    formula: { inside: [{ lo: [0, 0, 0], hi: [5, 6, 7] }] },
  });

  test("a chunk made only of empty ones is skipped, and takes no memory", async () => {
    const { volume, files, result } = await run(sparse, OFF);
    expect(result).toMatchObject({ done: 18, written: 1, skipped: 17 });
    expect([...files.keys()].filter((k) => k.startsWith("0/c/"))).toEqual(["0/c/0/0/0"]);
    const stitch = stitcher(regionOf(volume, OFF));
    stitch.add([1, 1, 1], null);
    expect(stitch.held).toBeGreaterThan(0);
    expect(stitch.heldBytes).toBe(0);
    stitch.add([0, 0, 0], new Uint8Array(16 ** 3)); // zeros, not null: the same
    expect(stitch.heldBytes).toBe(0);
  });

  test("it is written as zeros when skipping is off", async () => {
    const { files, result } = await run(sparse, { ...OFF, skipEmpty: false });
    expect(result).toMatchObject({ done: 18, written: 18, skipped: 0 });
    expect(files.get("0/c/1/2/2")).toEqual(new Uint8Array(16 ** 3));
  });

  test("a chunk with some empty parts is written, zero there", async () => {
    const { files } = await run(sparse, { ...OFF, skipEmpty: true });
    expect((await readBack(files)).data).toEqual(cut(sparse, 0, OFF.lo, OFF.hi));
  });
});

describe("writes and walk order", () => {
  const wide = source([12, 45, 45], [4, 4, 4]);
  const alignments: [string, CaseSource, { lo: number[]; hi: number[] }, number[], number[], number][] = [
    ["aligned", BIG, { lo: [16, 16, 16], hi: [37, 50, 41] }, [], [0, 1, 2], 0],
    ["aligned, cropped", BIG, { lo: [16, 16, 16], hi: [35, 40, 39] }, [], [0, 1, 2], 0],
    ["split along z", wide, { lo: [1, 4, 4], hi: [12, 44, 44] }, [0], [1, 2, 0], 1],
    ["split along x", wide, { lo: [0, 4, 3], hi: [12, 44, 43] }, [2], [0, 1, 2], 1],
    ["split along z and y", wide, { lo: [1, 2, 4], hi: [9, 42, 44] }, [0, 1], [2, 1, 0], 2 + 1],
    ["split along y and x", wide, { lo: [4, 2, 3], hi: [12, 42, 31] }, [1, 2], [0, 1, 2], 7 + 1],
    ["split along all", wide, { lo: [1, 2, 3], hi: [9, 42, 43] }, [0, 1, 2], [1, 2, 0], 10 * 2 + 2 + 1],
    [
      "off the edges but within one chunk along y",
      BIG,
      { lo: [3, 18, 6], hi: [30, 30, 38] },
      [0, 2],
      [1, 0, 2],
      2 + 1,
    ],
  ];

  test.each(alignments)("%s: order and count held", async (_, from, box, split, order, held) => {
    const volume = volumeOfCase(from);
    const region = regionOf(volume, box);
    expect(splitAxes(region)).toEqual(split);
    expect(walkOrder(region)).toEqual(order);
    expect(mostHeld(region)).toBe(held);
    const stitch = stitcher(region);
    let most = 0;
    for (const index of chunkIndices(region.served.lo, region.served.hi, order)) {
      stitch.add(index, await volume.chunk(0, index));
      most = Math.max(most, stitch.held);
    }
    expect(most).toBe(held);
    expect(stitch.mostHeld).toBe(held);
    expect(stitch.held).toBe(0);
  });

  test("a wide, shallow box holds 23 in this order, 111 in C order, and no order less", async () => {
    const volume = volumeOfCase(wide);
    const region = regionOf(volume, { lo: [1, 2, 3], hi: [9, 42, 43] });
    const held = (order: number[]) => {
      const stitch = stitcher(region);
      const one = new Uint8Array(64).fill(1);
      for (const index of chunkIndices(region.served.lo, region.served.hi, order)) stitch.add(index, one);
      return stitch.mostHeld;
    };
    expect(held(walkOrder(region))).toBe(23);
    expect(held([0, 1, 2])).toBe(111);
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ];
    expect(Math.min(...orders.map(held))).toBe(23);
    for (const order of orders) expect(held(order)).toBeLessThanOrEqual(mostHeld(region, order));
  });

  test("the producer is asked in walk order", async () => {
    const { asked, volume } = await run(wide, { lo: [1, 2, 3], hi: [9, 42, 43], concurrency: 1 });
    const { served } = regionOf(volume, { lo: [1, 2, 3], hi: [9, 42, 43] });
    expect(asked).toEqual([...chunkIndices(served.lo, served.hi, [1, 2, 0])].map((i) => i.join(".")));
  });

  test("each chunk is written right after its last served chunk arrived", async () => {
    const events: string[] = [];
    const volume = volumeOfCase(BIG);
    const target: Target = { name: "t", put: async (key) => void events.push(key) };
    const produce = async (index: Vec3) => {
      events.push(`ask ${index.join(".")}`);
      return volume.chunk(0, index);
    };
    await materialize(volume, produce, target, { ...OFF, compression: "none", concurrency: 1 });
    const at = (event: string) => events.indexOf(event);
    const region = regionOf(volume, OFF);
    const walk = [...chunkIndices(region.served.lo, region.served.hi, walkOrder(region))].map((i) =>
      i.join("."),
    );
    for (const index of chunkIndices([0, 0, 0], [2, 3, 3])) {
      const parts = [
        ...chunkIndices(index, index.map((i, a) => Math.min(i + 2, region.served.hi[a])) as unknown as Vec3),
      ]
        .map((i) => walk.indexOf(i.join(".")))
        .sort((a, b) => a - b);
      const written = at(`0/c/${index.join("/")}`);
      expect(written).toBeGreaterThan(at(`ask ${walk[parts.at(-1)!]}`));
      const next = walk[parts.at(-1)! + 1];
      if (next) expect(written).toBeLessThan(at(`ask ${next}`));
    }
  });
});

describe("the bound on memory", () => {
  // Three float32 channels in chunks of 64³: 3 MiB each.
  const table: [number[], number[], number][] = [
    [[512, 2048, 2048], [1, 1, 1], 265],
    [[2048, 2048, 512], [1, 1, 1], 265],
    [[512, 2048, 2048], [0, 1, 1], 33],
    [[2048, 2048, 512], [0, 1, 1], 9],
  ];
  const volume = arrayVolume({
    name: "v",
    dtype: "float32",
    channels: [3],
    levels: [{ data: new Float32Array(3), shape: [1, 1, 1] }],
  });
  const huge = { ...volume, levels: [{ ...volume.levels[0], shape: [4096, 4096, 4096] as Vec3 }] };

  test.each(table)("a box of %j from %j holds %i chunks", (size, lo, held) => {
    const region = regionOf(huge, { lo, hi: size.map((n, a) => n + lo[a]) });
    expect(chunkBytes(region)).toBe(3 * 2 ** 20);
    expect(mostHeld(region)).toBe(held);
    expect(planOf(region, { concurrency: 1 }).heldBytes).toBe(held * 3 * 2 ** 20);
  });

  test("C order would hold 1057", () => {
    const region = regionOf(huge, { lo: [1, 1, 1], hi: [513, 2049, 2049] });
    expect(mostHeld(region, [0, 1, 2])).toBe(1057);
  });
});

describe("abort", () => {
  test("nothing is asked for or written after it, what was asked for is given up, what was written stays", async () => {
    const volume = volumeOfCase(BIG);
    const { produce, asked, signals } = producer(volume, 0, () => 1);
    const controller = new AbortController();
    const target = memoryTarget();
    let filesThen = 0;
    let askedThen = 0;
    const done = materialize(volume, produce, target, {
      ...OFF,
      signal: controller.signal,
      concurrency: 3,
      onProgress: (p) => {
        if (p.written < 5 || controller.signal.aborted) return;
        filesThen = target.files.size;
        askedThen = asked.length;
        controller.abort(new Error("enough"));
      },
    });
    await expect(done).rejects.toThrow("enough");
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(filesThen).toBeGreaterThan(2);
    expect(target.files.size).toBe(filesThen);
    expect(asked.length).toBe(askedThen);
    expect(signals.at(-1)!.aborted).toBe(true);
  });

  test("a producer that never answers does not hold it up", async () => {
    const volume = volumeOfCase(BIG);
    const controller = new AbortController();
    const done = materialize(volume, () => new Promise(() => {}), memoryTarget(), {
      signal: controller.signal,
    });
    setTimeout(() => controller.abort(), 5);
    await expect(done).rejects.toMatchObject({ name: "AbortError" });
  });

  test("before the start nothing is written", async () => {
    const target = memoryTarget();
    const volume = volumeOfCase(BIG);
    const done = materialize(volume, producer(volume).produce, target, { signal: AbortSignal.abort() });
    await expect(done).rejects.toMatchObject({ name: "AbortError" });
    expect(target.files.size).toBe(0);
  });

  test("the store says that it is unfinished, and no longer once it is", async () => {
    const volume = volumeOfCase(BIG);
    const target = memoryTarget();
    const controller = new AbortController();
    const options = { ...OFF, onProgress: () => controller.abort() };
    await materialize(volume, producer(volume).produce, target, {
      ...options,
      signal: controller.signal,
    }).catch(() => {});
    expect(json(target.files, "zarr.json").attributes.chunkloom_unfinished).toBe("materialize");
    await materialize(volume, producer(volume).produce, target, OFF);
    expect(json(target.files, "zarr.json").attributes).not.toHaveProperty("chunkloom_unfinished");
  });
});

describe("failure", () => {
  const failing = (volume: Volume, at: string) => async (index: Vec3) => {
    if (index.join(".") === at) throw new Error("the source answered 500");
    return volume.chunk(0, index);
  };

  test("in a box names the served chunk as the engine's log does", async () => {
    const volume = volumeOfCase(BIG);
    const done = materialize(volume, failing(volume, "1.2.0"), memoryTarget(), OFF);
    await expect(done).rejects.toThrow(/^chunk v\/0\/1\.2\.0: the source answered 500$/);
  });

  test("by the level's extent names the chunk of the store", async () => {
    const volume = volumeOfCase(BIG);
    const error = await materialize(volume, failing(volume, "0.0.1"), memoryTarget(), {
      extent: "level",
    }).catch((e: ChunkError) => e);
    expect(error).toMatchObject({
      message: "chunk 0/0/0/1 of v: the source answered 500",
      chunk: "v/0/0.0.1",
    });
  });

  test("no other chunk that the same served chunk completed is written", async () => {
    // The far corner of the served chunks completes 8 chunks of the box at once.
    const from = source([40, 40, 40], [8, 8, 8]);
    const volume = volumeOfCase(from);
    const box = { lo: [4, 4, 4], hi: [24, 24, 24] };
    const written: string[] = [];
    let corner = false;
    let fail: (thrown: Error) => void = () => {};
    const target: Target = {
      name: "t",
      async put(key) {
        if (!key.startsWith("0/c/")) return;
        if (corner) {
          corner = false;
          fail(new Error("late failure"));
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        written.push(key);
      },
    };
    const controller = new AbortController();
    fail = (thrown) => controller.abort(thrown);
    const produce = async (index: Vec3) => {
      if (index.join() === "2,2,2") corner = true;
      return volume.chunk(0, index);
    };
    const done = materialize(volume, produce, target, { ...box, signal: controller.signal, concurrency: 1 });
    await expect(done).rejects.toThrow("late failure");
    expect(written.at(-1)).toBe("0/c/1/1/1"); // the write under way ended; 7 more were complete
    expect(written).not.toContain("0/c/2/2/2");
  });

  test("of another served chunk meanwhile: the write under way ends first, the rest is not written", async () => {
    const volume = volumeOfCase(source([24, 24, 24], [8, 8, 8]));
    const order: string[] = [];
    let failNow = () => {};
    const target: Target = {
      name: "t",
      async put(key) {
        if (!key.startsWith("0/c/")) return;
        order.push(`begin ${key}`);
        failNow();
        await new Promise((resolve) => setTimeout(resolve, 10));
        order.push(`end ${key}`);
      },
    };
    const produce = (index: Vec3) =>
      index.join() === "0,0,1"
        ? new Promise<never>((_, reject) => (failNow = () => reject(new Error("gone"))))
        : volume.chunk(0, index);
    const done = materialize(volume, produce, target, { lo: [0, 0, 0], concurrency: 2 });
    await expect(done).rejects.toThrow("chunk v/0/0.0.1: gone");
    expect(order).toEqual(["begin 0/c/0/0/0", "end 0/c/0/0/0"]);
  });

  test("a served chunk of the wrong size is refused", async () => {
    const volume = volumeOfCase(BIG);
    const done = materialize(volume, async () => new Uint8Array(100), memoryTarget(), OFF);
    await expect(done).rejects.toThrow(
      /^chunk v\/0\/0\.0\.0: has 100 bytes; a chunk of 16 x 16 x 16 uint8 has 4096$/,
    );
  });

  test("of the target names the file and the reason; what was written stays", async () => {
    const volume = volumeOfCase(BIG);
    const inner = memoryTarget();
    const target: Target = {
      ...inner,
      name: "disk",
      async put(key, bytes) {
        if (inner.files.size === 6) throw new Error("no space left");
        await inner.put(key, bytes);
      },
    };
    const done = materialize(volume, producer(volume).produce, target, { ...OFF, concurrency: 2 });
    await expect(done).rejects.toThrow(/^writing 0\/c\/\S+ to disk: no space left$/);
    expect(inner.files.size).toBe(6);
  });

  test.each([
    [{ extent: "all" as "box" }, /extent is "all"/],
    [{ format: "n5" as "zarr2" }, /format is "n5"/],
    [{ compression: "zstd" as "gzip" }, /compression is "zstd"/],
    [{ level: 3 }, /level 3 of v: not there/],
    [{ concurrency: 0 }, /concurrency is 0/],
    [{ lo: [99, 0, 0] }, /outside the level/],
  ])("options that do not fit are refused before anything is written: %j", async (options, message) => {
    const target = memoryTarget();
    const volume = volumeOfCase(BIG);
    await expect(materialize(volume, producer(volume).produce, target, options)).rejects.toThrow(message);
    expect(target.files.size).toBe(0);
  });

  test("a target that holds another store is refused by name", async () => {
    const volume = volumeOfCase(BIG);
    const target = memoryTarget();
    await materialize(volume, producer(volume).produce, target, OFF);
    const other = materialize(volume, producer(volume).produce, target, { lo: [1, 1, 1] });
    await expect(other).rejects.toThrow(/memory already holds another store: its zarr\.json/);
  });
});

describe("dtypes", () => {
  test("64-bit ids stay exact", async () => {
    const from = source([9, 9, 9], [4, 4, 4], { dtype: "uint64", formula: { scale: "73000000000000001" } });
    const { files } = await run(from, { lo: [1, 1, 1] });
    expect((await readBack(files)).data).toEqual(cut(from, 0, [1, 1, 1], [9, 9, 9]));
  });

  test("bool has fill value false", async () => {
    const { files } = await run({ ...BIG, dtype: "bool", formula: { ...BIG.formula, modulus: 2 } });
    expect(json(files, "0/zarr.json").fill_value).toBe(false);
    expect(asRead(files.get("0/c/0/0/0")!, "bool").every((v) => v === 0 || v === 1)).toBe(true);
  });
});

test("the core names no DOM object", () => {
  for (const file of ["materialize", "engine", "stitch", "region", "demand", "pipeline", "spill"]) {
    const text = readFileSync(new URL(`../src/${file}.ts`, import.meta.url), "utf8");
    expect(text).not.toMatch(/\b(window|document|navigator|localStorage)\./);
  }
});
