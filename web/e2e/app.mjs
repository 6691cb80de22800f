/**
 * Drives the built app in headless Chromium: opens real EM, runs a small ONNX model on it, sees the prediction in
 * Neuroglancer, saves a box off the chunk grid to OPFS and as a zip, and reads both back.
 *
 * `node e2e/app.mjs [OUT]`: OUT gets screenshots and the unpacked stores. Needs CHUNKLOOM_SHARED with `data/vnc.zarr`.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { serve } from "./server.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const shared = process.env.CHUNKLOOM_SHARED ?? at("../../../shared");
if (!existsSync(join(shared, "data", "vnc.zarr"))) {
  console.log(`skipped: no ${join(shared, "data", "vnc.zarr")}`);
  process.exit(0);
}
const out = process.argv[2] ?? mkdtempSync(join(tmpdir(), "chunkloom-app-"));
mkdirSync(out, { recursive: true });
const model = at("../../tests/conformance/model/");
const described = JSON.parse(readFileSync(join(model, "model.json"), "utf8"));
const voxel = [50, 4.6, 4.6];
const fitting = { ...described, input_voxel_size_nm: voxel, output_voxel_size_nm: voxel };
const host = await serve(
  { "": at("../app/dist"), data: join(shared, "data") },
  {
    "model/model.json": JSON.stringify(fitting),
    "model/two_kernels.onnx": readFileSync(join(model, "two_kernels.onnx")),
  },
);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const said = {};
try {
  const context = await browser.newContext({ acceptDownloads: true, viewport: { width: 1000, height: 700 } });
  const page = await context.newPage();
  page.on("pageerror", (error) => console.error("page:", error.message));
  const message = (pattern) =>
    page.waitForFunction(
      (p) => new RegExp(p).test(document.getElementById("message").textContent),
      pattern.source,
      {
        timeout: 120_000,
      },
    );
  const text = (id) => page.locator(`#${id}`).textContent();

  await page.goto(host.url);
  await page.fill("#data-url", `${host.url}/data/nothing.zarr`);
  await page.click("#data-form button[type=submit]");
  await message(/is not a volume/);
  said.notAVolume = await text("message");

  await page.fill("#data-url", `${host.url}/data/vnc.zarr/raw`);
  await page.click("#data-form button[type=submit]");
  await message(/found: uint8, 2 levels/);

  await page.click("#tab-model");
  await page.fill("#model-url", `${host.url}/model/model.json`);
  await page.click("#model-form button[type=submit]");
  await message(/ready/);
  said.model = await text("model-found");

  await page.click("#tab-view");
  const began = Date.now();
  // The viewer fetches from its own worker, which the page does not see: the engine's counts tell.
  const done = () => page.evaluate(async () => (await window.chunkloom.client.call("metrics")).cache.chunks);
  for (let i = 0; i < 300 && (await done()) < 2; i++) await page.waitForTimeout(100);
  said.firstComputedChunkMs = Date.now() - began;
  await page.waitForTimeout(15_000);
  said.metrics = await page.evaluate(() => window.chunkloom.client.call("metrics"));
  const shot = await page.screenshot({ path: join(out, "view.png") });
  said.screenshotBytes = shot.length;
  // The prediction is drawn in red over grey: pixels whose red stands out.
  said.redPixels = await page.evaluate(async (png) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 100, bitmap.width, bitmap.height - 100);
    let red = 0;
    for (let i = 0; i < data.length; i += 4)
      if (data[i] > data[i + 1] + 15 && data[i] > data[i + 2] + 15) red += 1;
    return red / (data.length / 4);
  }, shot.toString("base64"));
  if (said.redPixels < 0.2) throw new Error(`only ${said.redPixels} of the view shows the prediction`);

  const box = { lo: [3, 101, 203], hi: [17, 133, 241] };
  await page.click("#tab-run");
  await page.fill("#run-lo", box.lo.join(", "));
  await page.fill("#run-hi", box.hi.join(", "));
  await page.selectOption("#run-compression", "none");
  await page.selectOption("#run-target", "opfs");
  await page.fill("#run-name", "box.zarr");
  said.plan = await text("run-plan");
  await page.click("#run-start");
  await message(/saved box\.zarr/);
  said.opfs = await text("message");
  const files = await page.evaluate(async () => {
    const found = {};
    const walk = async (folder, path) => {
      for await (const [name, handle] of folder.entries()) {
        if (handle.kind === "directory") await walk(handle, `${path}${name}/`);
        else {
          const bytes = new Uint8Array(await (await handle.getFile()).arrayBuffer());
          found[path + name] = btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
        }
      }
    };
    await walk(await (await navigator.storage.getDirectory()).getDirectoryHandle("box.zarr"), "");
    return found;
  });
  for (const [key, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(out, "opfs", key)), { recursive: true });
    writeFileSync(join(out, "opfs", key), Buffer.from(bytes, "base64"));
  }

  await page.click("#tab-view");
  await page.waitForFunction(
    async () => (await window.chunkloom.viewer()).state.toJSON().layers?.length === 3,
  );
  said.layers = await page.evaluate(async () =>
    (await window.chunkloom.viewer()).state.toJSON().layers.map(({ name }) => name),
  );
  await page.click("#tab-run");
  await page.selectOption("#run-target", "zip");
  await page.fill("#run-name", "box");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#run-start")]);
  await download.saveAs(join(out, "box.zip"));
  execFileSync("python3", ["-m", "zipfile", "-e", "box.zip", "zip"], { cwd: out });
  said.zip = download.suggestedFilename();
  let same = 0;
  for (const key of Object.keys(files)) {
    if (Buffer.compare(readFileSync(join(out, "zip", key)), readFileSync(join(out, "opfs", key))) !== 0) {
      throw new Error(`the zip and OPFS differ at ${key}`);
    }
    same += 1;
  }
  said.filesAlike = same;

  await page.fill("#run-lo", "900, 0, 0");
  await page.fill("#run-hi", "901, 9, 9");
  await page.click("#run-start");
  await message(/outside the level/);
  said.outside = await text("message");
  said.address = page.url().length;
  // A link reproduces what is seen; with cached assets the first raw chunk comes soon after navigation.
  const link = await context.newPage();
  const state = { tab: "view", data: `${host.url}/data/vnc.zarr/raw`, ops: [], threshold: 0 };
  const opened = Date.now();
  await link.goto(`${host.url}/?state=${encodeURIComponent(JSON.stringify(state))}`);
  await link.waitForFunction(
    async () => (await window.chunkloom?.client.call("metrics"))?.cache.chunks > 0,
    undefined,
    { polling: 50, timeout: 30_000 },
  );
  said.firstRawChunkMs = Date.now() - opened;
  said.out = out;
  console.log(JSON.stringify(said, null, 1));
} finally {
  await browser.close();
  host.stop();
}
