/** Coarser levels made of the finest, against means and counts taken from the whole array. */

import { expect, test } from "vitest";
import { asRead, type Dtype, TYPED, type Typed } from "../src/asread.ts";
import { arrayVolume, Engine, memoryTarget, pyramid, readBox, type Vec3, type Volume } from "../src/index.ts";

const shape: Vec3 = [5, 11, 14];
const voxelSize: Vec3 = [50, 10, 10];

/** Values that repeat often enough for a mode, with negative ones where the dtype has them. */
function values(dtype: Dtype): Typed {
  const out = new (TYPED[dtype] as new (n: number) => Typed)(shape[0] * shape[1] * shape[2]);
  for (let i = 0; i < out.length; i++) {
    const v = ((i * 7919) % 23) - (dtype.startsWith("u") || dtype === "bool" ? 0 : 11);
    if (out instanceof BigInt64Array || out instanceof BigUint64Array) out[i] = BigInt(v) * 3n ** 35n;
    else out[i] = dtype === "bool" ? v % 2 : dtype.startsWith("float") ? v / 7 : v;
  }
  return out;
}

const made = (dtype: Dtype, kind?: "image" | "labels" | "mask") =>
  arrayVolume({
    name: "v",
    dtype,
    kind,
    levels: [{ data: values(dtype), shape, chunk: [4, 4, 4], voxelSize, corner: [1, 2, 3] }],
  });

type Given = { at(z: number, y: number, x: number): number | bigint; shape: Vec3 };

/** The voxels of a box of `factor` voxels, those that are there. */
function members(from: Given, [fz, fy, fx]: Vec3, z: number, y: number, x: number) {
  const found: (number | bigint)[] = [];
  for (let i = z * fz; i < Math.min(from.shape[0], (z + 1) * fz); i++)
    for (let j = y * fy; j < Math.min(from.shape[1], (y + 1) * fy); j++)
      for (let k = x * fx; k < Math.min(from.shape[2], (x + 1) * fx); k++) found.push(from.at(i, j, k));
  return found;
}

async function levelOf(volume: Volume, level: number): Promise<Given & { data: Typed }> {
  const s = volume.levels[level].shape;
  const { data } = await readBox(volume, level, { lo: [0, 0, 0], hi: s });
  return { data, shape: s, at: (z, y, x) => data[(z * s[1] + y) * s[2] + x] };
}

async function checked(volume: Volume, want: (of: (number | bigint)[]) => number | bigint) {
  for (let level = 1; level < volume.levels.length; level++) {
    const [fine, coarse] = [await levelOf(volume, level - 1), await levelOf(volume, level)];
    const f = [0, 1, 2].map((a) =>
      Math.round(volume.levels[level].voxelSize[a] / volume.levels[level - 1].voxelSize[a]),
    ) as unknown as Vec3;
    for (let z = 0; z < coarse.shape[0]; z++)
      for (let y = 0; y < coarse.shape[1]; y++)
        for (let x = 0; x < coarse.shape[2]; x++)
          expect(coarse.at(z, y, x), `level ${level}, ${z} ${y} ${x}`).toBe(want(members(fine, f, z, y, x)));
  }
}

test("halves the axes of the smallest voxels until a level fits in a chunk", () => {
  const { levels } = pyramid(made("uint8"));
  expect(levels.map((l) => l.shape)).toEqual([shape, [5, 6, 7], [5, 3, 4], [3, 2, 2]]);
  expect(levels.map((l) => l.voxelSize)).toEqual([voxelSize, [50, 20, 20], [50, 40, 40], [100, 80, 80]]);
  expect(new Set(levels.map((l) => l.corner.join()))).toEqual(new Set(["1,2,3"]));
});

test.each(["uint8", "int16", "uint32"] as Dtype[])("%s: means, half to even", async (dtype) => {
  await checked(pyramid(made(dtype, "image")), (of) => {
    const exact = of.reduce<number>((sum, v) => sum + Number(v), 0) / of.length;
    const near = Math.round(exact);
    return (Math.abs(exact % 1) === 0.5 ? 2 * Math.round(exact / 2) : near) + 0;
  });
});

test("float32: sums in float32, in order", async () => {
  await checked(pyramid(made("float32")), (of) =>
    Math.fround(of.map(Number).reduce((sum, v) => Math.fround(sum + v)) / of.length),
  );
});

test.each(["uint64", "int32", "bool"] as Dtype[])(
  "%s labels: the most frequent, then the smallest",
  async (dtype) => {
    await checked(pyramid(made(dtype, "labels")), (of) => {
      const count = new Map<number | bigint, number>();
      for (const v of of) count.set(v, (count.get(v) ?? 0) + 1);
      return [...count].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1))[0][0];
    });
  },
);

test("a coarser level is materialized where it lies", async () => {
  const engine = new Engine();
  engine.add(pyramid(made("uint8")));
  const target = memoryTarget();
  const options = { level: 1, lo: [1, 1, 1], hi: [4, 5, 6], compression: "none", format: "zarr2" } as const;
  const result = await engine.materialize("v", target, options);
  expect(result.shape).toEqual([3, 4, 5]);
  const coarse = await levelOf(engine.volume("v"), 1);
  const first = asRead(target.files.get("0/0/0/0")!, "uint8");
  expect(first[0]).toBe(coarse.at(1, 1, 1));
  const { multiscales } = JSON.parse(new TextDecoder().decode(target.files.get(".zattrs")!));
  const moved = [1 + 50 + 25, 2 + 20 + 10, 3 + 20 + 10];
  expect(multiscales[0].datasets[0].coordinateTransformations[1].translation).toEqual(moved);
});

test("a coarse chunk of what takes long gives way to a finer view's own, chunk by chunk", async () => {
  const fine = made("uint8");
  const order: string[] = [];
  const slow: Volume = {
    ...fine,
    dear: true,
    async chunk(level, index, signal) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      order.push(index.join("."));
      return fine.chunk(level, index, signal);
    },
  };
  const engine = new Engine({ modelSlots: 1 });
  const volume = engine.add(pyramid(slow));
  const coarse = engine.chunk("v", volume.levels.length - 1, [0, 0, 0]);
  await new Promise((resolve) => setTimeout(resolve, 12));
  await engine.chunk("v", 0, [1, 2, 3]);
  const before = order.length;
  expect(order.indexOf("1.2.3")).toBe(before - 1);
  expect(before).toBeLessThan(6);
  const bytes = await coarse;
  expect(bytes?.[0]).toBe((await levelOf(volume, volume.levels.length - 1)).at(0, 0, 0));
  // Each chunk of the finest level once, for whichever view; `levelOf` asked past the engine.
  expect(new Set(order.slice(0, 24)).size).toBe(24);
});
