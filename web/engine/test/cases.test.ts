/** Stored data with known answers, from the folder of cases beside the repository where there is one. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { asBytes } from "../src/asread.ts";
import { openVolume, readBox, type Volume } from "../src/index.ts";
import { folderStore } from "./files.ts";

const repository = fileURLToPath(new URL("../../..", import.meta.url));
const shared = process.env.CHUNKLOOM_SHARED ?? join(repository, "..", "shared");
const folder = join(shared, "cases");

interface Expected {
  path: string;
  axes: string[];
  shape: number[];
  dtype: string;
  sha256_c_le?: string;
  voxel_size_nm?: number[];
  corner_offset_nm?: number[];
  translation_nm?: number[];
}

const wanted: [string, Expected][] = [];
if (existsSync(folder)) {
  for (const id of readdirSync(folder)) {
    const file = join(folder, id, "expected.json");
    if (!existsSync(file)) continue;
    const { array, also = [], outcome } = JSON.parse(readFileSync(file, "utf8"));
    if (!["array", "array_or_error"].includes(outcome)) continue;
    for (const each of [array, ...also] as Expected[]) {
      if (existsSync(join(folder, id, each.path ?? "")) && !id.startsWith("precomputed"))
        wanted.push([id, each]);
    }
  }
}

function whole(volume: Volume) {
  return readBox(volume, 0, { lo: [0, 0, 0], hi: volume.levels[0].shape });
}

describe.skipIf(wanted.length === 0)("cases", () => {
  test.each(wanted.map(([id, each]) => [id, each.path, each] as const))(
    "%s: %s",
    async (id, path, expected) => {
      const [root, ...inside] = path.split("/");
      const volume = await openVolume(folderStore(join(folder, id, root)), { path: inside.join("/") });
      const block = await whole(volume);
      expect(block.dtype).toBe(expected.dtype);
      const space = expected.shape.slice(-3);
      expect([...block.shape]).toEqual(space);
      if (expected.sha256_c_le) {
        expect(createHash("sha256").update(asBytes(block.data)).digest("hex")).toBe(expected.sha256_c_le);
      }
      const [{ voxelSize, corner }] = volume.levels;
      if (expected.voxel_size_nm) expect([...voxelSize]).toEqual(expected.voxel_size_nm);
      if (expected.corner_offset_nm) expect([...corner]).toEqual(expected.corner_offset_nm);
      if (expected.translation_nm)
        expect(corner.map((c, a) => c + voxelSize[a] / 2)).toEqual(expected.translation_nm);
    },
  );

  test("zarr2-nested-no-separator is refused by name, and read with the separator given", async () => {
    const store = folderStore(join(folder, "zarr2-nested-no-separator", "data.zarr"));
    await expect(openVolume(store)).rejects.toThrow(/dimension_separator/);
    const block = await whole(await openVolume(store, { dimensionSeparator: "/" }));
    expect(createHash("sha256").update(asBytes(block.data)).digest("hex")).toMatch(/^520ce3010cf4/);
  });
});

describe.skipIf(!existsSync(join(shared, "data", "vnc.zarr")))("real data", () => {
  test("a group of levels with half-voxel translations has one corner", async () => {
    const volume = await openVolume(folderStore(join(shared, "data", "vnc.zarr")), { path: "raw" });
    expect(volume.levels.map((level) => level.corner)).toEqual([
      [-25, -2.3, -2.3],
      [-25, -2.3, -2.3],
    ]);
    expect(volume.levels[1].voxelSize).toEqual([50, 9.2, 9.2]);
    expect(volume.name).toBe("raw");
    const { data } = await readBox(volume, 1, { lo: [0, 0, 0], hi: [4, 8, 8] });
    expect(new Set(data as Uint8Array).size).toBeGreaterThan(10);
  });
});
