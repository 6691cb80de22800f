/**
 * Measures the memory of a materialize that spills: `node --expose-gc memory.mjs ENGINE SCRATCH`.
 *
 * Three float32 channels of noise in chunks of 32³ (384 kB), a box split on all axes, and a budget of a quarter of
 * what its slab and the chunks in flight would take. Prints the plan, and the most bytes of array buffers that were
 * alive (after a collection) beyond those before the start.
 */

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [, , enginePath, folder] = process.argv;
const { Engine, planOf, regionOf } = await import(pathToFileURL(enginePath).href);

const chunk = [32, 32, 32];
const bytes = 3 * 32 ** 3 * 4;
const level = { shape: [330, 330, 330], chunk, voxelSize: [8, 8, 8], corner: [0, 0, 0] };
const volume = {
  name: "noise",
  dtype: "float32",
  kind: "image",
  channels: [3],
  digest: "noise",
  levels: [level],
  async chunk(_, [z, y, x]) {
    const out = new Uint32Array(bytes / 4);
    let state = (z * 73856093) ^ (y * 19349663) ^ (x * 83492791) ^ 12345;
    for (let i = 0; i < out.length; i++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      out[i] = (state & 0x007fffff) | 0x3f800000;
    }
    return new Uint8Array(out.buffer);
  },
};
const box = { lo: [5, 7, 9], hi: [325, 327, 329] };
const free = planOf(regionOf(volume, box), { concurrency: 1, memoryBudget: 2 ** 40 });
const memoryBudget = Math.floor(free.peakBytes / 4);
await mkdir(folder, { recursive: true });
let spilled = 0;
const scratch = {
  async write(key, data) {
    spilled += 1;
    await writeFile(join(folder, key), data);
  },
  read: async (key) => {
    const data = await readFile(join(folder, key));
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  },
  remove: (key) => rm(join(folder, key)),
};
/** Buffers alive: what a collection found dead is given back on another thread, a moment later. */
const alive = async () => {
  for (let i = 0; i < 2; i++) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return process.memoryUsage().arrayBuffers;
};
const before = await alive();
let most = 0;
let plan;
let count = 0;
const written = new Map();
const target = {
  name: "nowhere",
  async put(key, data) {
    written.set(key, data.byteLength);
    if (count++ % 16 === 0) most = Math.max(most, (await alive()) - before);
  },
};
await new Engine({ slots: 2 }).materialize(volume, target, {
  ...box,
  compression: "none",
  concurrency: 1,
  memoryBudget,
  scratch,
  onPlan: (p) => {
    plan = p;
  },
});
console.log(JSON.stringify({ plan, free, memoryBudget, most, spilled, chunkBytes: bytes, chunks: written.size }));
