/** Whether the built pages are whole: Neuroglancer's workers are in them, and what the app needs beside them. */

import { existsSync, readdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const NEUROGLANCER = [
  [/^chunk_worker.*\.js$/, 400_000],
  [/^async_computation.*\.js$/, 50_000],
];
const pages = {
  "app/dist/assets": [
    ...NEUROGLANCER,
    [/^engine\.worker.*\.js$/, 50_000],
    [/^model\.worker.*\.js$/, 2_000],
    [/^ort-wasm-simd-threaded-.*\.wasm$/, 5_000_000],
    [/^ort-wasm-simd-threaded\.asyncify-.*\.wasm$/, 5_000_000],
  ],
  "app/dist": [
    [/^sw\.js$/, 500],
    [/^LICENSES\.md$/, 1000],
  ],
  "app/dist/models/fibsem-membrane": [
    [/^model\.json$/, 200],
    [/^model\.onnx$/, 500_000],
  ],
  // What Python's server gives out lies in one folder.
  "viewer/dist": [...NEUROGLANCER, [/^index\.html$/, 100], [/^index-.*\.js$/, 500_000]],
};
let whole = true;
for (const [folder, wanted] of Object.entries(pages)) {
  const path = at(`../${folder}/`);
  const names = existsSync(path) ? readdirSync(path) : [];
  for (const [pattern, least] of wanted) {
    const found = names
      .filter((name) => pattern.test(name))
      .map((name) => [name, statSync(path + name).size]);
    const [name, size] = found.sort((a, b) => b[1] - a[1])[0] ?? [pattern, 0];
    if (size >= least) continue;
    console.error(`${folder}: ${name} has ${size} bytes; expected at least ${least}: the build is not whole`);
    whole = false;
  }
}
if (!whole) process.exit(1);
console.log("bundles whole");
