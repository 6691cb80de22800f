/**
 * Drives the built app in headless Chromium: bad input in words, real EM, the sample model, the prediction in
 * Neuroglancer, a box drawn by mouse and saved to OPFS and as a zip, runs that break in the middle, 50 pans during a
 * run, and a link that shows it all again.
 *
 * `node e2e/app.mjs [OUT]`: OUT gets screenshots, the unpacked stores and the box that was drawn. Needs
 * CHUNKLOOM_SHARED with `data/vnc.zarr`. APP is the address of the app where something else serves it.
 */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { pans } from "./pans.mjs";
import { serve } from "./server.mjs";
import { until } from "./until.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const shared = process.env.CHUNKLOOM_SHARED ?? at("../../../shared");
if (!existsSync(join(shared, "data", "vnc.zarr"))) {
  console.log(`skipped: no ${join(shared, "data", "vnc.zarr")}`);
  process.exit(0);
}
const out = process.argv[2] ?? mkdtempSync(join(tmpdir(), "chunkloom-app-"));
mkdirSync(out, { recursive: true });

/** A volume of one chunk of some dtype, as files of a zarr v2 array. */
const oneChunk = (dtype, bytes) => ({
  ".zarray": JSON.stringify({
    ...{ zarr_format: 2, shape: [4, 4, 4], chunks: [4, 4, 4], dtype, compressor: null },
    ...{ fill_value: 0, order: "C", filters: null, dimension_separator: "." },
  }),
  "0.0.0": new Uint8Array(64 * bytes),
});
const inFolder = (folder, files) =>
  Object.fromEntries(Object.entries(files).map(([key, bytes]) => [`${folder}/${key}`, bytes]));
const conformance = at("../../tests/conformance/model/");
const described = JSON.parse(readFileSync(join(conformance, "model.json"), "utf8"));
const models = {
  ...inFolder("wrong", {
    "model.json": JSON.stringify({ ...described, output_shape: [10, 12, 14], input_shape: [14, 16, 18] }),
    "two_kernels.onnx": readFileSync(join(conformance, "two_kernels.onnx")),
  }),
  ...inFolder("right", {
    "model.json": JSON.stringify(described),
    "two_kernels.onnx": readFileSync(join(conformance, "two_kernels.onnx")),
  }),
  ...inFolder("quick", {
    "model.json": JSON.stringify({
      ...described,
      ...{ name: "quick", weights: "two_layers.onnx", input_shape: [48, 48, 48], output_shape: [42, 42, 42] },
    }),
    "two_layers.onnx": readFileSync(join(conformance, "two_layers.onnx")),
  }),
};
const host = await serve(
  { "": at("../app/dist"), data: join(shared, "data") },
  {
    ...models,
    ...inFolder("float64.zarr", oneChunk("<f8", 8)),
    ...inFolder("complex.zarr", oneChunk("<c8", 8)),
  },
);
const closed = await serve({ "": join(shared, "data") }, {}, { cors: false });
const app = process.env.APP ?? host.url;
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--enable-unsafe-webgpu"],
});
const said = { seconds: {} };
let last = Date.now();
const lap = (name) => {
  said.seconds[name] = (Date.now() - last) / 1000;
  if (process.env.VERBOSE) console.error(name, said.seconds[name]);
  last = Date.now();
};

/** Which part of a screenshot is red: the prediction is drawn in red over grey. */
function redPixels(page, base64) {
  return page.evaluate(async (png) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const drawing = canvas.getContext("2d");
    drawing.drawImage(bitmap, 0, 0);
    const { data } = drawing.getImageData(0, 150, bitmap.width, bitmap.height - 150);
    let red = 0;
    for (let i = 0; i < data.length; i += 4)
      if (data[i] > data[i + 1] + 40 && data[i] > data[i + 2] + 40) red += 1;
    return red / (data.length / 4);
  }, base64);
}

try {
  const context = await browser.newContext({
    acceptDownloads: true,
    colorScheme: "light",
    viewport: { width: 1000, height: 700 },
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => console.error("page:", error.message));
  const message = async (pattern) => {
    const found = (p) => new RegExp(p).test(document.getElementById("message").textContent);
    await page.waitForFunction(found, pattern.source, { timeout: 120_000 }).catch(async () => {
      throw new Error(`waited for ${pattern}; the page says: ${await text("message")}`);
    });
    return text("message");
  };
  const text = (id) => page.locator(`#${id}`).textContent();
  const openVolume = async (url, pattern) => {
    await page.click("#tab-data");
    await page.fill("#data-url", url);
    await page.click("#data-form button[type=submit]");
    return message(pattern);
  };
  const chooseModel = async (url) => {
    await page.click("#tab-model");
    await page.selectOption("#model-kind", "url");
    await page.fill("#model-url", url);
    await page.dispatchEvent("#model-url", "change");
  };
  const fillBox = async (lo, hi) => {
    await page.click("#tab-run");
    await page.fill("#run-lo", lo.join(", "));
    await page.fill("#run-hi", hi.join(", "));
  };

  /** Saves the box as a zip download, unpacked into a folder of OUT; gives the name it was offered under. */
  const unpacked = async (folder) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#run-start")]);
    await download.saveAs(join(out, `${folder}.zip`));
    execFileSync("python3", ["-m", "zipfile", "-e", `${folder}.zip`, folder], { cwd: out });
    return download.suggestedFilename();
  };

  // Bad input.
  await page.goto(app);
  said.isolated = await page.evaluate(() => window.crossOriginIsolated);
  said.notAVolume = await openVolume(`${host.url}/data/nothing.zarr`, /is not a volume/);
  said.cors = await openVolume(`${closed.url}/vnc.zarr/raw`, /could not be fetched/);
  said.dtype = await openVolume(`${host.url}/complex.zarr`, /complex|c8/);
  await openVolume(`${host.url}/float64.zarr`, /found: float64/);
  await page.click("#tab-view");
  said.viewedAs = await message(/cannot show float64/);
  await openVolume(`${host.url}/data/vnc.zarr/raw`, /found: uint8, 2 levels/);
  await page.screenshot({ path: join(out, "data.png") });
  await chooseModel(`${host.url}/nothing/model.json`);
  said.noModel = await message(/there is no such file/);
  await chooseModel(`${host.url}/wrong/model.json`);
  said.modelDoesNotFit = await message(/takes an input of/);
  lap("badInput");

  // The sample model, seen and drawn upon.
  await page.click("#tab-model");
  await page.selectOption("#model-kind", "sample");
  await message(/model fibsem-membrane loaded/);
  await page.click("#model-form button[type=submit]");
  await message(/ready/);
  said.model = await text("model-found");
  said.notes = await text("computed-notes");
  await page.screenshot({ path: join(out, "model.png") });
  await page.click("#tab-view");
  for (let i = 0; i < 60; i++) {
    await page.waitForTimeout(1000);
    const shot = await page.screenshot({ path: join(out, "view.png") });
    said.redPixels = await redPixels(page, shot.toString("base64"));
    if (said.redPixels > 0.02) break;
  }
  lap("view");
  await page.click("#view-draw");
  const drag = async (x, y, toX, toY) => {
    await page.evaluate(() => {
      document.getElementById("message").textContent = "";
    });
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(toX, toY, { steps: 5 });
    await page.mouse.up();
    await message(/box drawn/);
    return page.evaluate(() => {
      const three = (id) => document.getElementById(id).value.split(", ").map(Number);
      return { lo: three("run-lo"), hi: three("run-hi") };
    });
  };
  said.drawn = await drag(420, 330, 520, 470);
  // Its depth: in a panel that shows z, a drag sets z and x, and leaves y.
  await page.evaluate(async () => {
    const { state } = await window.chunkloom.viewer();
    state.restoreState({ ...state.toJSON(), layout: "xz" });
  });
  await page.waitForTimeout(500);
  const box = await drag(430, 290, 530, 590);
  said.boxLayer = await page.evaluate(
    async () =>
      (await window.chunkloom.viewer()).state.toJSON().layers.find((l) => l.name === "box").annotations,
  );
  await page.screenshot({ path: join(out, "box.png") });
  writeFileSync(join(out, "box.json"), JSON.stringify(box));
  await page.click("#tab-run");
  await page.selectOption("#run-target", "opfs");
  await page.selectOption("#run-compression", "none");
  await page.fill("#run-name", "box.zarr");
  said.plan = await text("run-plan");
  await page.click("#run-start");
  said.opfs = await message(/saved box\.zarr/);
  await page.screenshot({ path: join(out, "run.png") });
  const files = await page.evaluate(async () => {
    const found = {};
    const walk = async (folder, path) => {
      for await (const [name, handle] of folder.entries()) {
        if (handle.kind === "directory") await walk(handle, `${path}${name}/`);
        else {
          const bytes = new Uint8Array(await (await handle.getFile()).arrayBuffer());
          const chunks = [];
          for (let i = 0; i < bytes.length; i += 32768)
            chunks.push(String.fromCharCode(...bytes.subarray(i, i + 32768)));
          found[path + name] = btoa(chunks.join(""));
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
  await until(page, async () => (await window.chunkloom.viewer()).state.toJSON().layers?.length === 4);
  said.layers = await page.evaluate(async () =>
    (await window.chunkloom.viewer()).state.toJSON().layers.map(({ name }) => name),
  );
  lap("opfs");
  await page.click("#tab-run");
  await page.selectOption("#run-target", "zip");
  await page.fill("#run-name", "box");
  said.zip = await unpacked("zip");
  await message(/saved box/);
  for (const key of Object.keys(files)) {
    if (Buffer.compare(readFileSync(join(out, "zip", key)), readFileSync(join(out, "opfs", key))) !== 0) {
      throw new Error(`the zip and OPFS differ at ${key}`);
    }
  }
  said.filesAlike = Object.keys(files).length;
  said.address = page.url();
  lap("zip");

  // Runs that do not go well, and panning during one that does.
  await chooseModel(`${host.url}/quick/model.json`);
  await message(/model quick loaded/);
  await page.click("#model-form button[type=submit]");
  await message(/ready/);
  await fillBox([900, 0, 0], [901, 9, 9]);
  await page.click("#run-start");
  said.outside = await message(/outside the level/);
  await page.selectOption("#run-volume", "computed");
  await page.selectOption("#run-target", "folder");
  await page.fill("#run-name", "withdrawn.zarr");
  await fillBox([1, 1, 1], [19, 300, 300]);
  await page.evaluate(async () => {
    // The dialog cannot be driven: the page gets a folder of OPFS, which is taken away once the run has written.
    const root = await navigator.storage.getDirectory();
    window.showDirectoryPicker = () => root.getDirectoryHandle("given", { create: true });
    const seen = new MutationObserver(async () => {
      if (!/[1-9]\d* written/.test(document.getElementById("run-said").textContent)) return;
      // Refused while a file is being written.
      await root.removeEntry("given", { recursive: true }).then(
        () => seen.disconnect(),
        () => {},
      );
    });
    seen.observe(document.getElementById("run-said"), { childList: true });
  });
  await page.click("#run-start");
  said.withdrawn = await message(/Stopped after/);
  await page.selectOption("#run-volume", "raw");
  await fillBox([1, 1, 1], [19, 639, 1023]);
  const devtools = await context.newCDPSession(page);
  const quotaSize = (await page.evaluate(() => navigator.storage.estimate())).usage + 400_000;
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(app).origin, quotaSize });
  await page.selectOption("#run-target", "opfs");
  await page.fill("#run-name", "full.zarr");
  await page.click("#run-start");
  said.full = await message(/full\.zarr stays/);
  said.leftWhenFull = await page.evaluate(async () => {
    const store = await (await navigator.storage.getDirectory()).getDirectoryHandle("full.zarr");
    const group = await (await (await store.getFileHandle("zarr.json")).getFile()).text();
    let chunks = 0;
    for await (const _ of (await (await store.getDirectoryHandle("0")).getDirectoryHandle("c")).keys())
      chunks += 1;
    return { unfinished: group.includes("chunkloom_unfinished"), folders: chunks };
  });
  await devtools.send("Storage.overrideQuotaForOrigin", { origin: new URL(app).origin });
  lap("broken");
  await page.click("#tab-view");
  said.pans = await pans(page);
  lap("pans");

  // On the graphics processor, here one that the processor imitates: never chosen, but it can be asked for.
  await chooseModel(`${host.url}/right/model.json`);
  await message(/model two-kernels loaded/);
  said.providers = {};
  await page.click("#tab-model");
  for (const provider of ["auto", "webgpu"]) {
    await page.selectOption("#model-provider", provider);
    await message(/model two-kernels loaded/);
    await page.click("#model-form button[type=submit]");
    await message(/ready/);
    const values = await page.evaluate(async () => {
      const { client, now, base } = window.chunkloom;
      await client.call("looking", true);
      const answer = await fetch(`${await base}/${now.computed.viewed}/zarr2/s0/0/1/9/9`);
      return [...new Float32Array(await answer.arrayBuffer())];
    });
    said.providers[provider] = { runsOn: /runs on (.*)/.exec(await text("model-found"))[1], values };
  }
  lap("webgpu");

  // Steps alone.
  await page.click("#tab-model");
  await page.selectOption("#model-kind", "none");
  await page.selectOption("#chain select", "gaussian");
  await page.fill("#chain input.exact", "1.5");
  await page.click("#model-form button[type=submit]");
  await message(/ready/);
  await fillBox(box.lo, box.hi);
  await page.selectOption("#run-volume", "computed");
  await page.selectOption("#run-target", "zip");
  await page.fill("#run-name", "steps");
  await unpacked("steps");
  await message(/saved steps/);
  lap("steps");

  // A link shows it again; with cached assets the first raw chunk comes soon after navigation.
  const link = await context.newPage();
  const state = JSON.parse(new URL(said.address).searchParams.get("state"));
  const opened = Date.now();
  const address = `${app}/?state=${encodeURIComponent(JSON.stringify({ ...state, model: undefined, tab: "view" }))}`;
  await link.goto(address);
  await until(link, async () => (await window.chunkloom?.client.call("metrics"))?.cache.chunks > 0);
  said.firstRawChunkMs = Date.now() - opened;
  await link.waitForFunction(() => document.getElementById("view-box").textContent !== "");
  said.link = await link.evaluate(async () => ({
    box: document.getElementById("view-box").textContent,
    position: (await window.chunkloom.viewer()).state.toJSON().position,
  }));
  said.state = state;
  lap("link");
  said.out = out;
  console.log(JSON.stringify(said, null, 1));
} finally {
  await browser.close();
  host.stop();
  closed.stop();
}
