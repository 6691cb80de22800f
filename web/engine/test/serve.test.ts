import { describe, expect, test } from "vitest";
import * as zarr from "zarrita";
import { answer, Engine, openVolume, readBox } from "../src/index.ts";
import { source, values, volumeOfCase } from "./formula.ts";

const from = source([11, 13, 9], [4, 5, 6], { dtype: "uint16", channels: [2] });

function served() {
  const engine = new Engine();
  engine.add(volumeOfCase(from));
  const get = async (path: string) => {
    const { status, body } = await answer(engine, path);
    return status === 200 ? (body ?? undefined) : undefined;
  };
  return { engine, get };
}

describe.each(["zarr", "zarr2", "zarr3"])("/v/%s", (format) => {
  test("zarrita reads every voxel", async () => {
    const { get } = served();
    const store = { get: (key: string) => get(`v/${format}${key}`) };
    const array = await zarr.open(zarr.root(store).resolve("s0"), { kind: "array" });
    const { data, shape } = await zarr.get(array);
    expect(shape).toEqual([2, 11, 13, 9]);
    expect(data).toEqual(values(from, 0));
  });

  test("our own reader finds the place", async () => {
    const { get } = served();
    const volume = await openVolume({ name: "page", get: (key) => get(`v/${format}/${key}`) });
    expect(volume.levels[0]).toMatchObject({ voxelSize: [8, 8, 8], corner: [0, 0, 0] });
    const { data } = await readBox(volume, 0, { lo: [0, 0, 0], hi: [11, 13, 9] });
    expect(data).toEqual(values(from, 0));
  });
});

test.each([
  ["w/zarr2/.zattrs", 404],
  ["v/n5/attributes.json", 404],
  ["v/zarr2/s1/.zarray", 404],
  ["v/zarr2/s0/0/9/9/9", 404],
  ["v/zarr2/s0/0/0/0", 404],
  ["v/zarr2/s0/1/0/0/0", 404],
  ["v/zarr2/s0/../../etc/passwd", 404],
  ["v/zarr3/s0/c/0/0/0/x", 404],
  ["v/zarr2/s0/0.0.0.0", 200],
  ["v/zarr3/s0/c/0/0/0/0", 200],
])("%s is %i", async (path, status) => {
  expect((await answer(served().engine, path)).status).toBe(status);
});

test("a failed chunk is 500 with the reason, never 404", async () => {
  const engine = new Engine();
  engine.add({ ...volumeOfCase(from), chunk: () => Promise.reject(new Error("the source is gone")) });
  const { status, body } = await answer(engine, "v/zarr3/s0/c/0/0/0/0");
  expect([status, new TextDecoder().decode(body!)]).toEqual([500, "chunk v/0/0.0.0: the source is gone"]);
});
