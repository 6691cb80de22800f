/** Every case of tests/conformance/ops: what ops make of a whole volume, told by NumPy and SciPy. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { asRead, type Typed } from "../src/asread.ts";
import { Engine, memoryTarget, OP_NAMES, type OpData, opsOf, readBox, type Volume } from "../src/index.ts";
import { type CaseSource, source, volumeOfCase } from "./formula.ts";

interface OpCase {
  readonly name: string;
  readonly about: string;
  readonly source: CaseSource;
  readonly ops: readonly OpData[];
  readonly tolerance: number;
  readonly compare: "values" | "partition";
  readonly expected: { dtype: Volume["dtype"]; channels: number[]; values: string };
}

const folder = new URL("../../../tests/conformance/ops/", import.meta.url);
const cases = readdirSync(folder).map((f) => JSON.parse(readFileSync(new URL(f, folder), "utf8")) as OpCase);

/** The same objects whatever their ids: two labellings that map to each other one to one. */
function samePartition(a: Typed, b: Typed): boolean {
  const [to, from] = [new Map<bigint, bigint>(), new Map<bigint, bigint>()];
  return Array.from(a as BigUint64Array).every((v, i) => {
    const w = (b as BigUint64Array)[i];
    if ((v === 0n) !== (w === 0n)) return false;
    if (!to.has(v)) to.set(v, w);
    if (!from.has(w)) from.set(w, v);
    return to.get(v) === w && from.get(w) === v;
  });
}

describe.each(cases.map((c) => [c.name, c] as const))("%s", (_, c) => {
  test(c.about, async () => {
    const engine = new Engine();
    const made = await engine.addPipeline(volumeOfCase(c.source), c.ops, "made");
    expect([made.dtype, made.channels]).toEqual([c.expected.dtype, c.expected.channels]);
    const { shape } = made.levels[0];
    const want = asRead(new Uint8Array(Buffer.from(c.expected.values, "base64")), made.dtype);
    if (c.compare === "partition") {
      const target = memoryTarget();
      await engine.materialize("made", target, { compression: "none", skipEmpty: false });
      const got = await readBox(stored(made, target.files), 0, { lo: [0, 0, 0], hi: shape });
      const plane = shape[0] * shape[1] * shape[2];
      for (let at = 0; at < want.length; at += plane) {
        expect(samePartition(got.data.subarray(at, at + plane), want.subarray(at, at + plane))).toBe(true);
      }
      return;
    }
    const { data } = await readBox(made, 0, { lo: [0, 0, 0], hi: shape });
    if (c.tolerance === 0) {
      expect(data).toEqual(want);
      return;
    }
    const far = Array.from(data as Float32Array, (v, i) => {
      const w = (want as Float32Array)[i];
      return Object.is(v, w) || v === w ? 0 : Math.abs(v - w) / Math.max(1, Math.abs(w));
    });
    expect(Math.max(...far)).toBeLessThanOrEqual(c.tolerance);
  });
});

/** A volume that reads the chunks a materialize wrote. */
function stored(like: Volume, files: Map<string, Uint8Array>): Volume {
  const channels = like.channels.map(() => "0/").join("");
  return { ...like, chunk: async (_, index) => files.get(`0/c/${channels}${index.join("/")}`) ?? null };
}

test("every op by name has a case", () => {
  const named = new Set(cases.flatMap((c) => c.ops.map((op) => op.name)));
  expect(OP_NAMES.filter((name) => !named.has(name)).sort()).toEqual([]);
});

describe("what does not fit is refused by name", () => {
  test.each([
    [{ name: "Gauss" }, /op "Gauss" is not known; known are MinMaxNormalizer/],
    [{ name: "gaussian", sigma: -1 }, /gaussian\.sigma is -1/],
    [{ name: "gaussian" }, /gaussian\.sigma is undefined/],
    [{ name: "MinMaxNormalizer", min_value: 5, max_value: 5 }, /max_value must be greater/],
    [{ name: "ThresholdPostprocessor", level: 1 }, /no parameter level; it has threshold/],
    [{ name: "cast", dtype: "complex64" }, /cast\.dtype is "complex64"/],
    [{ name: "dilate", size: 2.5 }, /dilate\.size is 2\.5; expected odd/],
    [{ name: "WholeVolumeStandardizer" }, /mean is not set; resolve the op/],
    [{ name: "LambdaNormalizer", expression: "np.sum(x)" }, /np\.sum looks at more than one voxel/],
    [{ name: "LambdaNormalizer", expression: "x.tofile('a')" }, /\.tofile is not allowed/],
    [{ name: "LambdaNormalizer", expression: "__import__('os')" }, /the name __import__ is not allowed/],
    [{ name: "LambdaNormalizer", expression: "x**x" }, /an exponent must be a plain number/],
    [
      { name: "LambdaNormalizer", expression: "x if x > 1 else 0" },
      /if is not allowed here; use np\.logical_and/,
    ],
    [{ name: "LambdaNormalizer", expression: "x[0]" }, /"\[0\]" is not allowed here/],
    [{ name: "LambdaNormalizer", expression: "x +" }, /it ends too early/],
    [{ name: "LambdaNormalizer", expression: `x${"+1".repeat(300)}` }, /at most 500/],
  ])("%j", (op, message) => {
    expect(() => opsOf([op as OpData])).toThrow(message);
  });

  test("a channel that is not there", async () => {
    const engine = new Engine();
    const op = { name: "ChannelSelection", channels: "3" };
    const made = engine.addPipeline(volumeOfCase(source([8, 8, 8], [4, 4, 4], { channels: [2] })), [op], "m");
    await expect(made).rejects.toThrow(/no channel 3; the data has 2/);
  });
});

test("parameters arrive as text too", () => {
  expect(
    opsOf([{ name: "MinMaxNormalizer", min_value: "0", max_value: "255", invert: "False" }]),
  ).toHaveLength(1);
});
