import { describe, expect, test } from "vitest";
import {
  ByteCache,
  Engine,
  memoryScratch,
  memoryTarget,
  planOf,
  regionOf,
  type Vec3,
  type Volume,
} from "../src/index.ts";
import { source, volumeOfCase } from "./formula.ts";

const BIG = source([37, 50, 41], [16, 16, 16]);
const OFF = { lo: [3, 5, 2], hi: [30, 44, 39], compression: "none" as const };

/** A volume that counts how often each chunk is computed. */
function counted(volume: Volume, wait = 0): Volume & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    ...volume,
    asked,
    async chunk(level, index, signal) {
      asked.push(index.join("."));
      if (wait) await new Promise((resolve) => setTimeout(resolve, wait));
      signal?.throwIfAborted();
      return volume.chunk(level, index, signal);
    },
  };
}

const bytesOf = (files: Map<string, Uint8Array>) =>
  [...files].map(([key, bytes]) => [key, Buffer.from(bytes).toString("base64")]).sort();

describe("chunks", () => {
  test("a client's chunk is kept, and computed once however many ask", async () => {
    const volume = counted(volumeOfCase(BIG), 1);
    const engine = new Engine();
    engine.add(volume);
    const ask = () => engine.chunk("v", 0, [0, 0, 0]);
    await Promise.all([ask(), ask(), ask()]);
    await ask();
    expect(volume.asked).toEqual(["0.0.0"]);
    expect(engine.metrics.cache).toMatchObject({ chunks: 1, hits: 1 });
  });

  test("a failure names the chunk, and is logged", async () => {
    const log: string[] = [];
    const engine = new Engine({ log: (line) => log.push(line) });
    engine.add({ ...volumeOfCase(BIG), chunk: () => Promise.reject(new Error("refused")) });
    await expect(engine.chunk("v", 0, [2, 0, 0])).rejects.toThrow(/^chunk v\/0\/2\.0\.0: refused$/);
    await expect(engine.materialize("v", memoryTarget(), { ...OFF, concurrency: 1 })).rejects.toThrow(
      /^chunk v\/0\/0\.0\.0: refused$/,
    );
    expect(log).toEqual(["chunk v/0/2.0.0: refused", "chunk v/0/0.0.0: refused"]);
  });

  test("what is not there is refused by name", async () => {
    const engine = new Engine();
    engine.add(volumeOfCase(BIG));
    await expect(engine.chunk("w", 0, [0, 0, 0])).rejects.toThrow(/no volume "w"; there are v/);
    await expect(engine.chunk("v", 1, [0, 0, 0])).rejects.toThrow(/level 1 of v/);
    await expect(engine.chunk("v", 0, [3, 0, 0])).rejects.toThrow(
      /chunk v\/0\/3\.0\.0: outside the level's 3 x 4 x 3/,
    );
  });
});

describe("Engine.materialize", () => {
  test("writes what the pure function writes, each served chunk computed once, and keeps none", async () => {
    const volume = counted(volumeOfCase(BIG));
    const engine = new Engine({ slots: 3 });
    engine.add(volume);
    const target = memoryTarget();
    const result = await engine.materialize("v", target, OFF);
    expect(volume.asked.length).toBe(18);
    expect(new Set(volume.asked).size).toBe(18);
    expect(engine.metrics.cache.chunks).toBe(0);
    expect(result).toMatchObject({ done: 18, written: 18, target: "memory" });
  });

  test("a chunk that a client asked for meanwhile is kept, and still computed once", async () => {
    const volume = counted(volumeOfCase(BIG), 2);
    const engine = new Engine({ slots: 2 });
    engine.add(volume);
    const done = engine.materialize("v", memoryTarget(), { ...OFF, concurrency: 8 });
    await new Promise((resolve) => setTimeout(resolve, 1));
    await engine.chunk("v", 0, [0, 1, 0]);
    await done;
    expect(new Set(volume.asked).size).toBe(volume.asked.length);
    expect(engine.metrics.cache.chunks).toBe(1);
  });

  test("a chunk already kept is not computed again", async () => {
    const volume = counted(volumeOfCase(BIG));
    const engine = new Engine();
    engine.add(volume);
    await engine.chunk("v", 0, [0, 0, 0]);
    await engine.materialize("v", memoryTarget(), OFF);
    expect(volume.asked.length).toBe(18);
  });

  test("a client waits at most for one running background job", async () => {
    const volume = counted(volumeOfCase(BIG), 5);
    const engine = new Engine({ slots: 1 });
    engine.add(volume);
    const done = engine.materialize("v", memoryTarget(), { ...OFF, concurrency: 6 });
    await new Promise((resolve) => setTimeout(resolve, 12));
    const before = volume.asked.length;
    await engine.chunk("v", 0, [2, 3, 2]);
    expect(volume.asked.slice(before)[0]).toBe("2.3.2");
    await done;
  });

  test("50 pans during a run: each view's first chunk waits at most for one running background job", async () => {
    const job = 8;
    const volume = counted(volumeOfCase(source([64, 64, 64], [4, 4, 4])), job);
    const engine = new Engine({ slots: 1, cacheBytes: 0 });
    engine.add(volume);
    const controller = new AbortController();
    const run = engine
      .materialize("v", memoryTarget(), { signal: controller.signal, concurrency: 8 })
      .catch(() => {});
    let most = 0;
    for (let pan = 0; pan < 50; pan++) {
      await new Promise((resolve) => setTimeout(resolve, 3 + (pan % 7)));
      const before = volume.asked.length;
      const view = [0, 1, 2].map((x) => engine.chunk("v", 0, [15, pan % 16, 13 + x]));
      await view[0];
      const first = volume.asked.indexOf(`15.${pan % 16}.13`, before);
      most = Math.max(most, first - before); // chunks begun between the pan and its first chunk
      await Promise.all(view);
    }
    controller.abort();
    await run;
    expect(most).toBe(0);
  });

  test("an abort gives up what is queued and running", async () => {
    const volume = counted(volumeOfCase(BIG), 2);
    const engine = new Engine({ slots: 2 });
    engine.add(volume);
    const controller = new AbortController();
    const done = engine.materialize("v", memoryTarget(), {
      ...OFF,
      concurrency: 6,
      signal: controller.signal,
    });
    setTimeout(() => controller.abort(), 5);
    await expect(done).rejects.toMatchObject({ name: "AbortError" });
    const then = volume.asked.length;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(volume.asked.length).toBe(then);
    expect(engine.metrics.demand).toMatchObject({ waiting: 0, running: 0 });
  });

  test("labels are joined over chunk faces, and progress counts both passes", async () => {
    const engine = new Engine();
    const ops = [{ name: "ThresholdPostprocessor", threshold: 0.5 }, { name: "label" }];
    const full = source([20, 20, 20], [8, 8, 8], { formula: { modulus: 1, subtract: -1 } });
    await engine.addPipeline(volumeOfCase(full), ops, "one");
    const target = memoryTarget();
    const progress: number[] = [];
    let last: unknown;
    await engine.materialize("one", target, {
      compression: "none",
      onProgress: (p) => {
        progress.push(p.computed);
        last = p;
      },
    });
    const ids = new Set(
      [...target.files].flatMap(([key, b]) =>
        key.startsWith("0/c/") ? [...new BigUint64Array(b.slice().buffer)] : [],
      ),
    );
    expect(ids.size).toBe(2); // background past the edges, and one object
    expect(progress).toEqual([...progress].sort((a, b) => a - b));
    expect(last).toMatchObject({ computed: 54, needed: 54, done: 27, total: 27 });
  });
});

describe("a pipeline", () => {
  test("has another digest for other ops, other parameters, other voxels", async () => {
    const engine = new Engine();
    const base = volumeOfCase(BIG);
    const make = async (sigma: number, volume = base) =>
      (await engine.addPipeline(volume, [{ name: "gaussian", sigma }], "g")).digest;
    const finer = { ...base, levels: [{ ...base.levels[0], voxelSize: [4, 4, 4] as Vec3 }] };
    const digests = [await make(1), await make(1.5), await make(1, finer), await make(1)];
    expect(digests[3]).toBe(digests[0]);
    expect(new Set(digests).size).toBe(3);
  });

  test("does not write into the chunks of the stage below", async () => {
    const volume = volumeOfCase(source([16, 16, 16], [16, 16, 16], { dtype: "float32" }));
    const before = (await volume.chunk(0, [0, 0, 0]))!.slice();
    const shared = (await volume.chunk(0, [0, 0, 0]))!;
    const same: Volume = { ...volume, chunk: async () => shared };
    const engine = new Engine();
    for (const name of [
      "MinMaxNormalizer",
      "ZScoreNormalizer",
      "SigmoidPostprocessor",
      "DefaultPostprocessor",
    ]) {
      await (await engine.addPipeline(same, [{ name }], name)).chunk(0, [0, 0, 0]);
    }
    await (await engine.addPipeline(same, [{ name: "erode", size: 3 }], "e")).chunk(0, [0, 0, 0]);
    expect(Buffer.compare(shared, before)).toBe(0);
  });

  test("reads each source chunk once while the cache holds it", async () => {
    const volume = counted(volumeOfCase(BIG));
    const engine = new Engine();
    await engine.addPipeline(volume, [{ name: "gaussian", sigma: 1 }], "g");
    await engine.materialize("g", memoryTarget(), {});
    expect(volume.asked.length).toBe(3 * 4 * 3);
  });

  test("scales its sigma with the level", async () => {
    const two = {
      ...BIG,
      levels: [
        { shape: [32, 32, 32], chunk: [16, 16, 16], voxel_size_nm: [8, 8, 8], corner_nm: [0, 0, 0] },
        { shape: [16, 16, 16], chunk: [16, 16, 16], voxel_size_nm: [16, 16, 16], corner_nm: [0, 0, 0] },
      ] as unknown as typeof BIG.levels,
    };
    const engine = new Engine();
    const wide = await engine.addPipeline(volumeOfCase(two), [{ name: "gaussian", sigma: 2 }], "wide");
    const coarse = volumeOfCase({ ...two, levels: [two.levels[1]], formula: { ...two.formula, offset: 4 } });
    const half = await engine.addPipeline(coarse, [{ name: "gaussian", sigma: 1 }], "half");
    expect(await wide.chunk(1, [0, 0, 0])).toEqual(await half.chunk(0, [0, 0, 0]));
  });
});

describe("ByteCache", () => {
  test("stays within its budget, the least recently used out first", () => {
    const cache = new ByteCache<number>(10);
    cache.put("a", 1, 4);
    cache.put("b", 2, 4);
    cache.get("a");
    cache.put("c", 3, 4);
    expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual([1, undefined, 3]);
    expect(cache.bytes).toBe(8);
    cache.put("huge", 9, 11);
    expect(cache.has("huge")).toBe(false);
  });
});

describe("a memory budget", () => {
  // Split on three axes: a slab of 5 x 5 + 5 + 1 chunks of 16 kB wait.
  const from = source([48, 48, 48], [8, 8, 8], { dtype: "float32", channels: [8], formula: { subtract: 3 } });
  const box = { lo: [1, 2, 3], hi: [48, 47, 46], compression: "none" as const, concurrency: 1 };
  const size = 8 ** 3 * 8 * 4;

  test("of a quarter of the slab is kept to, by partial chunks on scratch, and the store is the same", async () => {
    const volume = volumeOfCase(from);
    const engine = new Engine();
    engine.add(volume);
    const plain = memoryTarget();
    await engine.materialize("v", plain, box);
    const { heldBytes, held } = planOf(regionOf(volume, box), { concurrency: 1 });
    expect(held).toBe(6 * 6 + 6 + 1);
    const memoryBudget = heldBytes / 4;
    const scratch = memoryScratch();
    let writes = 0;
    let most = 0;
    const counting = {
      ...scratch,
      async write(key: string, bytes: Uint8Array) {
        writes += 1;
        await scratch.write(key, bytes);
      },
    };
    const target = memoryTarget();
    await engine.materialize("v", target, {
      ...box,
      memoryBudget,
      scratch: counting,
      onPlan: (plan) => {
        expect(plan).toMatchObject({ spills: true, concurrency: 1 });
        expect(plan.peakBytes).toBeLessThanOrEqual(memoryBudget);
        most = plan.partialBytes;
      },
    });
    expect(most).toBeGreaterThanOrEqual(size);
    expect(writes).toBeGreaterThan(0);
    expect(scratch.files.size).toBe(0);
    expect(bytesOf(target.files)).toEqual(bytesOf(plain.files));
  });

  test("without scratch is refused, saying what to do", async () => {
    const engine = new Engine();
    engine.add(volumeOfCase(from));
    const target = memoryTarget();
    await expect(engine.materialize("v", target, { ...box, memoryBudget: 20 * size })).rejects.toThrow(
      /wait for their last part.*Put lo on chunk edges.*or give scratch/,
    );
    expect(target.files.size).toBe(0);
  });

  test("too small for one chunk is refused", async () => {
    const engine = new Engine();
    engine.add(volumeOfCase(from));
    const options = { ...box, memoryBudget: size, scratch: memoryScratch() };
    await expect(engine.materialize("v", memoryTarget(), options)).rejects.toThrow(
      /one chunk at a time takes/,
    );
  });

  test("asks for fewer chunks at a time to keep to it", () => {
    const region = regionOf(volumeOfCase(from), box);
    expect(planOf(region, { concurrency: 8, memoryBudget: 10 * size }).concurrency).toBe(3);
  });

  test("scratch is cleared after a failure", async () => {
    const volume = volumeOfCase(from);
    const engine = new Engine();
    let asked = 0;
    engine.add({
      ...volume,
      chunk: (l, i) => (++asked > 150 ? Promise.reject(new Error("x")) : volume.chunk(l, i)),
    });
    const scratch = memoryScratch();
    const run = engine.materialize("v", memoryTarget(), { ...box, memoryBudget: 10 * size, scratch });
    await expect(run).rejects.toThrow(/chunk v\/0\//);
    expect(scratch.files.size).toBe(0);
  });
});
