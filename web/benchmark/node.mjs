/**
 * Ours beside bare loops, in Node and in Chromium, in one run: pass-through materialize, model tiles, and how soon the
 * app's service worker answers a raw chunk after navigation. See `benchmarks/web.mjs`.
 */

import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as ort from "onnxruntime-web";
import { chromium } from "playwright-core";
import { build } from "vite";
import * as zarr from "zarrita";
import { serve } from "../e2e/server.mjs";
import { until } from "../e2e/until.mjs";
import * as engine from "../engine/dist/index.js";
import * as model from "../engine/dist/ops/model.js";
import { median, modelsOf, noise, passThrough, tiles } from "./measures.mjs";

const N = 512;
const CHROMIUM = "/usr/bin/chromium";
const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "chunkloom-benchmark-"));
const source = join(folder, "source");
const put = (root) => async (key, bytes) => {
  await mkdir(dirname(join(root, key)), { recursive: true });
  await writeFile(join(root, key), bytes);
};
const json = (path) => JSON.parse(readFileSync(at(path), "utf8"));
const [sample, tiny] = [
  json("../../src/chunkloom/models/bundled/fibsem-membrane/model.json"),
  json("../../tests/conformance/model/model.json"),
];
const weights = {
  sample: readFileSync(at(`../../src/chunkloom/models/bundled/fibsem-membrane/${sample.weights}`)),
  tiny: readFileSync(at("../../tests/conformance/model/two_layers.onnx")),
};

async function inNode() {
  const get = async (key) => {
    try {
      return new Uint8Array(await readFile(join(source, key)));
    } catch (thrown) {
      if (thrown.code === "ENOENT") return undefined;
      throw thrown;
    }
  };
  const out = join(folder, "out");
  const target = () => ({ put: put(out), end: () => rm(out, { recursive: true }) });
  const said = { passThrough: await passThrough({ engine, zarr, n: N, get, target, rounds: 5 }) };
  ort.env.wasm.numThreads = 1;
  for (const [name, each] of Object.entries(modelsOf(model.parseModel, sample, tiny))) {
    const bytes = new Uint8Array(weights[name]);
    said[`${name}Tiles`] = await tiles({ engine, model, ort, weights: bytes, ...each });
  }
  return said;
}

async function inChromium() {
  const page = join(folder, "page");
  await build({
    configFile: false,
    logLevel: "error",
    resolve: { alias: [{ find: /^onnxruntime-web$/, replacement: "onnxruntime-web/wasm" }] },
    build: {
      target: "es2022",
      outDir: page,
      assetsInlineLimit: 0,
      rolldownOptions: { input: at("./page.mjs"), output: { entryFileNames: "page.js" } },
    },
  });
  await writeFile(join(page, "index.html"), '<!doctype html><script type="module" src="page.js"></script>');
  const host = await serve(
    { "": page, source },
    { "sample.onnx": weights.sample, "tiny.onnx": weights.tiny },
  );
  const app = await serve({ "": at("../app/dist"), source });
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const measuring = await browser.newPage();
    await measuring.goto(host.url);
    await measuring.waitForFunction(() => window.measure);
    const said = await measuring.evaluate(([n, a, b]) => window.measure(n, a, b), [N, sample, tiny]);
    await measuring.close();
    return { ...said, firstRawChunkSeconds: await firstRawChunk(browser, app.url) };
  } finally {
    await browser.close();
    host.stop();
    app.stop();
  }
}

/** From navigation until the service worker has answered a raw chunk, assets cached; median of five. */
async function firstRawChunk(browser, url) {
  const context = await browser.newContext();
  const state = encodeURIComponent(JSON.stringify({ tab: "view", data: `${url}/source` }));
  const times = [];
  for (let i = 0; i < 6; i++) {
    const page = await context.newPage();
    const began = performance.now();
    await page.goto(`${url}/?state=${state}`);
    await until(page, async () => (await window.chunkloom?.client.call("metrics"))?.cache.chunks > 0);
    if (i > 0) times.push((performance.now() - began) / 1000); // the first fills the cache
    await page.close();
  }
  await context.close();
  return median(times);
}

const maker = new engine.Engine();
maker.add(noise(engine, N));
await maker.materialize("v", { name: source, put: put(source) }, { format: "zarr2", compression: "none" });
try {
  const said = { node: await inNode() };
  if (existsSync(CHROMIUM)) said.chromium = await inChromium();
  else said.chromium = `not measured: no ${CHROMIUM}`;
  console.log(JSON.stringify(said, (_, v) => (typeof v === "number" ? Number(v.toPrecision(3)) : v), 1));
} finally {
  await rm(folder, { recursive: true });
}
