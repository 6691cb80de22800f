/** The page: four tabs over one engine. What they show is in the address. */

import type { MaterializeProgress, OpData } from "@chunkloom/engine";
import type { Viewer } from "@chunkloom/viewer";
import { parseBox, planInWords, size } from "./box.ts";
import { download, EngineClient, keepAwake, virtualBase } from "./client.ts";
import { viewerState } from "./layers.ts";
import type { Kept, ModelAsked, RunAsked, Shown, Source } from "./messages.ts";
import { type AppState, fromQuery, toQuery } from "./state.ts";

const $ = <T extends HTMLElement = HTMLInputElement>(id: string) => document.getElementById(id) as T;
const client = new EngineClient();
const base = virtualBase(client);
let state: AppState = fromQuery(location.search);
let source: Source | undefined;
let files: ModelAsked["files"];
let raw: Shown | undefined;
let computed: Shown | undefined;
let saved: Shown | undefined;
let viewer: Promise<Viewer> | undefined;
let shownState = "";

function say(words: string, bad = false): void {
  $("message").textContent = words;
  $("message").classList.toggle("bad", bad);
}

/** Runs an action; what goes wrong is said on screen. */
async function doing(words: string, action: () => Promise<string>): Promise<boolean> {
  say(words);
  try {
    say(await action());
    return true;
  } catch (thrown) {
    const { name, message } = thrown as Error;
    say(name === "AbortError" ? "cancelled" : message, true);
    return false;
  }
}

function change(more: Partial<AppState>): void {
  state = { ...state, ...more };
  // Without a hash: what Neuroglancer keeps there names this page alone.
  history.replaceState(null, "", toQuery(state));
}

// Tabs

async function open(tab: AppState["tab"]): Promise<void> {
  change({ tab });
  for (const name of ["data", "model", "view", "run"]) {
    $(name).hidden = name !== tab;
    $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
  }
  if (tab === "view") await showView();
  if (tab === "run") await offerRun();
}

// Data

async function openData(from: Source): Promise<void> {
  const channel = $("data-channel").value.trim();
  await doing("opening …", async () => {
    const select: Record<string, number> = channel === "" ? {} : { c: Number(channel) };
    raw = await client.call("open", from, select);
    source = from;
    computed = undefined;
    saved = undefined;
    change({
      data: "url" in from ? from.url : undefined,
      channel: channel === "" ? undefined : Number(channel),
    });
    showFound(raw);
    return `found: ${raw.dtype}, ${raw.levels.length} level${raw.levels.length === 1 ? "" : "s"}`;
  });
}

function showFound(found: Shown): void {
  const table = $<HTMLTableElement>("data-found");
  const channels = found.channels.length ? `, ${found.channels.join(" x ")} channels` : "";
  table.caption!.textContent = `${found.kind}, ${found.dtype}${channels}`;
  table.tBodies[0].replaceChildren(
    ...found.levels.map((level, i) => {
      const row = document.createElement("tr");
      for (const words of [i, level.shape, level.voxelSize, level.corner, level.chunk]) {
        row.insertCell().textContent = Array.isArray(words) ? words.join(", ") : String(words);
      }
      return row;
    }),
  );
  table.hidden = false;
}

$<HTMLFormElement>("data-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void openData({ url: $("data-url").value.trim() });
});

type Picker = { showDirectoryPicker?: (options: object) => Promise<FileSystemDirectoryHandle> };

async function pickFolder(mode: "read" | "readwrite"): Promise<FileSystemDirectoryHandle> {
  const pick = (window as Picker).showDirectoryPicker;
  if (!pick) throw new Error("this browser cannot give a page a folder; Chrome and Edge can");
  return pick.call(window, { mode });
}

$("data-folder").addEventListener("click", () =>
  doing("choose a folder …", async () => {
    await openData({ folder: await pickFolder("read") });
    return $("message").textContent ?? "";
  }),
);

// Model

function parseOps(text: string): OpData[] {
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      try {
        return JSON.parse(line) as OpData;
      } catch {
        throw new Error(`op "${line.trim()}": not JSON; expected such as {"name": "gaussian", "sigma": 1.5}`);
      }
    });
}

async function compute(): Promise<boolean> {
  return doing("making the volume …", async () => {
    if (!raw) throw new Error("open data first");
    const url = $("model-url").value.trim();
    const ops = parseOps($<HTMLTextAreaElement>("model-ops").value);
    const threshold = Number($("model-threshold").value);
    const all = threshold > 0 ? [...ops, { name: "ThresholdPostprocessor", threshold }] : ops;
    const model: ModelAsked | undefined = url
      ? { url: new URL(url, location.href).href }
      : files && { files };
    if (!model && all.length === 0) throw new Error("give a model, an op, or both");
    computed = await client.call("computed", "computed", all, model);
    change({ model: url || undefined, ops, threshold });
    $("model-found").textContent =
      `computed: ${computed.dtype}, ${computed.channels.join(" x ") || "no"} channels, ` +
      `voxels of ${computed.levels[0].voxelSize.join(" x ")} nm, chunks of ${computed.levels[0].chunk.join(" x ")}`;
    return "ready: look at it under View, save a box under Run";
  });
}

$<HTMLFormElement>("model-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void compute();
});

function showThreshold(): void {
  const value = Number($("model-threshold").value);
  $<HTMLOutputElement>("model-threshold-shown").value = value > 0 ? value.toFixed(2) : "off";
}
$("model-threshold").addEventListener("input", showThreshold);

$("model-files").addEventListener("change", () =>
  doing("reading the model …", async () => {
    const given = [...($("model-files").files ?? [])];
    const described = given.find((file) => file.name.endsWith(".json"));
    const weights = given.find((file) => !file.name.endsWith(".json"));
    if (!described || !weights) throw new Error("choose two files: model.json and the weights it names");
    files = {
      description: JSON.parse(await described.text()),
      weights: new Uint8Array(await weights.arrayBuffer()),
    };
    return `model: ${weights.name}, ${size(weights.size)}`;
  }),
);

// View

async function showView(): Promise<void> {
  await doing("…", async () => {
    if (!raw) throw new Error("open data first");
    viewer ??= import("@chunkloom/viewer").then(({ makeViewer }) => makeViewer($<HTMLElement>("viewer")));
    const [at, made] = await Promise.all([base, viewer]);
    const volumes = [raw, computed, saved].filter((volume) => volume !== undefined);
    const wanted = JSON.stringify(volumes.map((volume) => volume.digest));
    if (wanted !== shownState) made.state.restoreState(viewerState(volumes, at));
    shownState = wanted;
    return volumes
      .filter((volume) => volume.viewedAs)
      .map(
        (volume) =>
          `Neuroglancer cannot show ${volume.dtype}: ${volume.name} is shown as ${volume.viewedAs}, and saved as it is`,
      )
      .join("; ");
  });
}

// Run

let running: number | undefined;
let count = 0;

async function offerRun(): Promise<void> {
  const volumes = [computed, raw].filter((volume) => volume !== undefined);
  $<HTMLSelectElement>("run-volume").replaceChildren(
    ...volumes.map(({ name }) =>
      Object.assign(document.createElement("option"), { value: name, textContent: name }),
    ),
  );
  if (volumes.length && !$("run-hi").value) {
    $("run-lo").value = "0, 0, 0";
    $("run-hi").value = volumes[0].levels[0].shape.join(", ");
  }
  await plan();
}

function askedRun(): RunAsked {
  const volume = $("run-volume").value;
  const shown = [computed, raw].find((each) => each?.name === volume);
  if (!shown) throw new Error("open data first");
  const level = Number($("run-level").value);
  const box = parseBox(shown, level, $("run-lo").value, $("run-hi").value, $("run-unit").value);
  return {
    volume,
    level,
    ...box,
    format: $("run-format").value as RunAsked["format"],
    compression: $("run-compression").value as RunAsked["compression"],
    extent: $("run-extent").value as RunAsked["extent"],
  };
}

async function plan(): Promise<void> {
  try {
    $("run-plan").textContent = planInWords(await client.call("plan", askedRun()));
  } catch (thrown) {
    $("run-plan").textContent = (thrown as Error).message;
  }
}

$<HTMLFormElement>("run-form").addEventListener("change", () => void plan());

$("run-here").addEventListener("click", () =>
  doing("…", async () => {
    const shown = [computed, raw].find((each) => each?.name === $("run-volume").value);
    const looking = (await viewer)?.state.toJSON() as { position?: number[] } | undefined;
    if (!shown || !looking?.position) throw new Error("look at the volume under View first");
    const { voxelSize, corner, chunk, shape } = shown.levels[0];
    const centre = [2, 1, 0].map((i, a) => looking.position![i] - corner[a] / voxelSize[a]);
    $("run-unit").value = "voxels";
    $("run-level").value = "0";
    $("run-lo").value = centre.map((c, a) => Math.max(0, Math.round(c - chunk[a] / 2))).join(", ");
    $("run-hi").value = centre.map((c, a) => Math.min(shape[a], Math.round(c + chunk[a] / 2))).join(", ");
    await plan();
    return "";
  }),
);

async function targetAsked(name: string): Promise<Kept> {
  const kind = $("run-target").value;
  if (kind === "zip") return { kind };
  if (kind === "opfs") return { kind, path: name };
  if (kind === "put") return { kind, url: name };
  const folder = await (await pickFolder("readwrite")).getDirectoryHandle(name, { create: true });
  return { kind: "folder", folder };
}

client.onStream = (_, stream) => {
  const name = $("run-name").value.replace(/(\.zip)?$/, ".zip");
  download(stream, name).catch((thrown: Error) => say(`the zip was not finished: ${thrown.message}`, true));
};

client.onProgress = (run, progress: MaterializeProgress) => {
  if (run !== running) return;
  const bar = $<HTMLProgressElement>("run-progress");
  bar.hidden = false;
  bar.max = progress.needed;
  bar.value = progress.computed;
  $("run-said").textContent =
    `${progress.computed} of ${progress.needed} chunks computed, ${progress.written} written, ${size(progress.bytes)}`;
};

$<HTMLFormElement>("run-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running !== undefined) return;
  await doing("saving …", async () => {
    const asked = askedRun();
    const name = $("run-name").value.trim();
    const target = await targetAsked(name);
    running = count++;
    const sleep = keepAwake();
    $<HTMLButtonElement>("run-start").disabled = true;
    $<HTMLButtonElement>("run-cancel").disabled = false;
    try {
      const result = await client.call("materialize", running, asked, target);
      // What was saved opens as a layer, where it can be read back.
      if (target.kind === "folder" || target.kind === "opfs") saved = await client.call("saved", target);
      return (
        `saved ${name}: ${result.shape.join(" x ")}, ${result.written} chunks written, ${result.skipped} empty, ` +
        `${size(result.bytes)} in ${result.seconds.toFixed(1)} s`
      );
    } finally {
      sleep();
      running = undefined;
      $<HTMLButtonElement>("run-start").disabled = false;
      $<HTMLButtonElement>("run-cancel").disabled = true;
    }
  });
});

$("run-cancel").addEventListener("click", () => running !== undefined && client.call("cancel", running));

// Start

for (const name of ["data", "model", "view", "run"] as const)
  $(`tab-${name}`).addEventListener("click", () => open(name));

async function start(): Promise<void> {
  const wanted = state;
  $("data-url").value = wanted.data ?? "";
  $("data-channel").value = wanted.channel === undefined ? "" : String(wanted.channel);
  $("model-url").value = wanted.model ?? "";
  $<HTMLTextAreaElement>("model-ops").value = wanted.ops.map((op) => JSON.stringify(op)).join("\n");
  $("model-threshold").value = String(wanted.threshold);
  showThreshold();
  if (wanted.data) await openData({ url: wanted.data });
  if (raw && (wanted.model || wanted.ops.length || wanted.threshold)) await compute();
  await open(wanted.tab);
}

base.catch((thrown: Error) => say(thrown.message, true));
void start();
Object.assign(window, { chunkloom: { client, source: () => source, viewer: () => viewer } });
