/** Every case of tests/conformance/materialize, whose expected store was told from the whole array by NumPy. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { asRead } from "../src/asread.ts";
import { Engine, gunzip, type Materialized, memoryTarget, type OpData } from "../src/index.ts";
import { type CaseSource, volumeOfCase } from "./formula.ts";

interface Case {
  readonly name: string;
  readonly about: string;
  readonly source: CaseSource;
  readonly ops: readonly OpData[];
  readonly boxes: readonly { lo: number[] | null; hi: number[] | null }[];
  readonly options: {
    level: number;
    extent: "box" | "level";
    format: "zarr2" | "zarr3";
    codec: "none" | "gzip";
    skip_empty: boolean;
    attributes: Record<string, unknown>;
  };
  readonly tolerance: number;
  readonly expected: {
    error?: string;
    files: Record<string, string>;
    chunks: Record<string, { bytes: number; sha256: string; values?: string }>;
    results: (Omit<Materialized, "target" | "format" | "seconds" | "bytes"> & {
      needed: number;
      bytes: number | null;
    })[];
  };
}

const folder = new URL("../../../tests/conformance/materialize/", import.meta.url);
const cases = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Case);

async function run(c: Case) {
  const engine = new Engine();
  const volume = engine.add(volumeOfCase(c.source));
  if (c.ops.length) await engine.addPipeline(volume, c.ops, volume.name);
  const target = memoryTarget();
  const results: Materialized[] = [];
  const needed: number[] = [];
  for (const box of c.boxes) {
    results.push(
      await engine.materialize(c.source.name, target, {
        level: c.options.level,
        lo: box.lo ?? undefined,
        hi: box.hi ?? undefined,
        extent: c.options.extent,
        format: c.options.format,
        compression: c.options.codec,
        skipEmpty: c.options.skip_empty,
        attributes: c.options.attributes,
        onPlan: (plan) => needed.push(plan.needed),
      }),
    );
  }
  return { files: target.files, results, needed, dtype: engine.volume(c.source.name).dtype };
}

test("there are at least 40 cases", () => {
  expect(cases.length).toBeGreaterThanOrEqual(40);
});

describe.each(cases.map((c) => [c.name, c] as const))("%s", (_, c) => {
  if (c.expected.error) {
    test(`is refused: ${c.about}`, async () => {
      await expect(run(c)).rejects.toThrow(c.expected.error);
    });
    return;
  }

  test(c.about, async () => {
    const { files, results, needed, dtype } = await run(c);
    const expected = c.expected;
    const keys = [...Object.keys(expected.files), ...Object.keys(expected.chunks)];
    expect([...files.keys()].sort()).toEqual(keys.sort());
    for (const [key, text] of Object.entries(expected.files)) {
      expect(new TextDecoder().decode(files.get(key))).toBe(text);
    }
    for (const [key, chunk] of Object.entries(expected.chunks)) {
      const stored = files.get(key)!;
      const raw = c.options.codec === "gzip" ? await gunzip(stored) : stored;
      expect(raw.byteLength).toBe(chunk.bytes);
      if (chunk.values) {
        const want = asRead(new Uint8Array(Buffer.from(chunk.values, "base64")), dtype);
        const got = asRead(raw, dtype);
        const difference = Array.from(got as Float32Array, (v, i) => Math.abs(v - Number(want[i])));
        expect(Math.max(...difference)).toBeLessThanOrEqual(c.tolerance);
      } else {
        expect([key, createHash("sha256").update(raw).digest("hex")]).toEqual([key, chunk.sha256]);
      }
    }
    results.forEach((result, i) => {
      const { needed: wanted, bytes, ...want } = expected.results[i];
      expect(result).toMatchObject(want);
      expect(needed[i]).toBe(wanted);
      if (bytes !== null) expect(result.bytes).toBe(bytes);
    });
  });
});
