/**
 * Materializes volumes that Python made, for Python to read back: `node materialize.mjs JOB.json`.
 *
 * A job: `engine` (the built index.js), `source` (name, dtype, channels, levels with `file`, raw little-endian C order,
 * shape, chunk, voxelSize, corner), `options` of Engine.materialize, `target` (a folder). Prints the result as JSON.
 */

import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const job = JSON.parse(await readFile(process.argv[2], "utf8"));
const { arrayVolume, asRead, Engine } = await import(pathToFileURL(job.engine).href);

const levels = [];
for (const { file, ...level } of job.source.levels) {
  const data = asRead(new Uint8Array(await readFile(file)), job.source.dtype);
  levels.push({ ...level, data });
}
const engine = new Engine();
engine.add(arrayVolume({ ...job.source, levels }));
const target = {
  name: job.target,
  async put(key, bytes) {
    const path = join(job.target, key);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.part`, bytes);
    await rename(`${path}.part`, path);
  },
};
const progress = [];
const result = await engine.materialize(job.source.name, target, {
  ...job.options,
  onProgress: (p) => progress.push(p),
});
console.log(JSON.stringify({ result, progress: progress.length, last: progress.at(-1) }));
