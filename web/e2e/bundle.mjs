/** Whether the built app is whole: Neuroglancer's workers are in it, and the service worker has its name. */

import { readdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../app/dist/", import.meta.url));
const assets = readdirSync(`${dist}assets`);
const wanted = [
  [/^chunk_worker.*\.js$/, 400_000],
  [/^async_computation.*\.js$/, 50_000],
  [/^engine\.worker.*\.js$/, 50_000],
  [/^ort-wasm-simd-threaded-.*\.wasm$/, 5_000_000],
];
for (const [pattern, least] of wanted) {
  const name = assets.find((each) => pattern.test(each));
  const size = name ? statSync(`${dist}assets/${name}`).size : 0;
  if (size < least) {
    console.error(
      `app/dist/assets: ${name ?? pattern} has ${size} bytes; expected at least ${least}: the build is not whole`,
    );
    process.exit(1);
  }
}
if (!statSync(`${dist}sw.js`).size) process.exit(1);
console.log("bundle whole");
