/** The Run tab: a box of a volume saved to where it is wanted, with what it takes said before, and progress. */

import { boxToWorld, type MaterializeProgress, type Vec3 } from "@chunkloom/engine";
import { boxFromNm, counted, gridOf, parseBox, planInWords, size, typed } from "./box.ts";
import { download, keepAwake } from "./client.ts";
import { pickFolder } from "./data.ts";
import type { Kept, RunAsked, Shown } from "./messages.ts";
import { $, doing, element, say } from "./page.ts";
import { change, client, now } from "./session.ts";

let running: number | undefined;
/** Whether a person chose the volume: until then it is the computed one, where there is one. */
let volumeChosen = false;
let count = 0;
let last: MaterializeProgress | undefined;
let boxChanged: () => void = () => {};
let savedOne: () => void = () => {};

/** What happens when the box is another one, and when something was saved that can be looked at. */
export function onBox(action: () => void): void {
  boxChanged = action;
}
export function onSaved(action: () => void): void {
  savedOne = action;
}

const volumes = () => [now.computed, now.raw].filter((volume) => volume !== undefined);
const level = () => Number($("run-level").value);
const unit = () => $<HTMLSelectElement>("run-unit").value as "voxels" | "nm";

/** The volume that the Run tab would save. */
export function shownOfRun(): Shown | undefined {
  const name = $<HTMLSelectElement>("run-volume").value;
  return volumes().find((shown) => shown.name === name) ?? volumes()[0];
}

/** The box that is typed, in nm (z, y, x); nothing while it is not one. */
export function boxInNm(): { readonly lo: Vec3; readonly hi: Vec3 } | undefined {
  const shown = shownOfRun();
  if (!shown) return undefined;
  try {
    const box = parseBox(shown, level(), $("run-lo").value, $("run-hi").value, unit());
    const { beginNm, endNm } = boxToWorld(gridOf(shown, level()), box);
    return { lo: beginNm, hi: endNm };
  } catch {
    return undefined;
  }
}

/** The box as it is typed, in one line. */
export const boxTyped = () => `${$("run-lo").value} to ${$("run-hi").value} ${unit()} (z, y, x)`;

/** Takes a box of nm as the box to save. */
export async function setBoxFromNm(lo: readonly number[], hi: readonly number[]): Promise<void> {
  const shown = shownOfRun();
  if (!shown) throw new Error("open data first, under Data");
  const box = boxFromNm(shown, level(), lo as unknown as Vec3, hi as unknown as Vec3);
  const text = typed(shown, level(), box, unit());
  $("run-lo").value = text.lo;
  $("run-hi").value = text.hi;
  await changed();
}

/** Takes all of the volume, or a chunk around where the viewer looks. */
async function boxFrom(what: "all" | "here"): Promise<void> {
  const shown = shownOfRun();
  if (!shown || !now.raw) throw new Error("open data first, under Data");
  if (what === "all") {
    const { beginNm, endNm } = boxToWorld(shown.levels[0], { lo: [0, 0, 0], hi: shown.levels[0].shape });
    return setBoxFromNm(beginNm, endNm);
  }
  const position = now.state.look?.position as readonly number[] | undefined;
  if (!position) throw new Error("look at the volume under View first");
  const { voxelSize, chunk } = shown.levels[0];
  const centre = [2, 1, 0].map((i, a) => position[i] * now.raw!.levels[0].voxelSize[a]);
  const half = chunk.map((n, a) => (n * voxelSize[a]) / 2);
  await setBoxFromNm(
    centre.map((c, a) => c - half[a]),
    centre.map((c, a) => c + half[a]),
  );
}

/** The box was changed by a person: it goes into the address, the view, and the plan. */
async function changed(): Promise<void> {
  change({ box: { lo: $("run-lo").value, hi: $("run-hi").value, unit: unit() } });
  boxChanged();
  await plan();
}

/** Fills what can be chosen from what is open. */
export async function offerRun(): Promise<void> {
  const select = $<HTMLSelectElement>("run-volume");
  const before = volumeChosen ? select.value : now.computed?.name;
  select.replaceChildren(
    ...volumes().map(({ name }) => element("option", { value: name, textContent: name })),
  );
  if (before && volumes().some(({ name }) => name === before)) select.value = before;
  const shown = shownOfRun();
  if (!shown) {
    $("run-plan").textContent = "Open data first, under Data.";
    return;
  }
  const { box } = now.state;
  $<HTMLSelectElement>("run-unit").value = box?.unit ?? unit();
  const whole = typed(shown, 0, { lo: [0, 0, 0], hi: shown.levels[0].shape }, unit());
  $("run-lo").value = box?.lo ?? whole.lo;
  $("run-hi").value = box?.hi ?? whole.hi;
  $("run-level").max = String(shown.levels.length - 1);
  await plan();
}

function askedRun(): RunAsked {
  const shown = shownOfRun();
  if (!shown) throw new Error("open data first, under Data");
  return {
    volume: shown.name,
    level: level(),
    ...parseBox(shown, level(), $("run-lo").value, $("run-hi").value, unit()),
    format: $("run-format").value as RunAsked["format"],
    compression: $("run-compression").value as RunAsked["compression"],
    extent: $("run-extent").value as RunAsked["extent"],
  };
}

/** Says what the run would take. */
async function plan(): Promise<void> {
  const line = $("run-plan");
  try {
    line.textContent = planInWords(await client.call("plan", askedRun()));
    line.classList.remove("bad");
  } catch (thrown) {
    line.textContent = (thrown as Error).message;
    line.classList.add("bad");
  }
}

async function targetAsked(name: string): Promise<Kept> {
  const kind = $<HTMLSelectElement>("run-target").value;
  if (!name) throw new Error("give a name for what is saved");
  if (kind === "zip") return { kind };
  if (kind === "opfs") return { kind, path: name };
  if (kind === "put") {
    if (!/^https?:\/\//.test(name))
      throw new Error(`"${name}": expected an address that takes files by HTTP PUT`);
    return { kind, url: name };
  }
  if (/[/\\]/.test(name)) throw new Error(`"${name}": expected the name of one folder`);
  const folder = await (await pickFolder("readwrite")).getDirectoryHandle(name, { create: true });
  return { kind: "folder", folder };
}

/** Where a run stopped, after why. What was written stays, but half a zip is no zip. */
function stopped(why: string, target: Kept, name: string): string {
  if (!last) return why; // before anything was written
  const done = `${last.done} of ${last.total} chunks`;
  const stays =
    target.kind === "zip"
      ? "the zip is not finished: delete it"
      : `what was written to ${name} stays, marked as unfinished`;
  return `${why.replace(/\.+$/, "")}. Stopped after ${done}; ${stays}`;
}

function showProgress(progress: MaterializeProgress): void {
  last = progress;
  const bar = $<HTMLProgressElement>("run-progress");
  bar.hidden = false;
  bar.max = progress.needed;
  bar.value = progress.computed;
  const { computed, needed, written, bytes } = progress;
  const percent = Math.floor((100 * computed) / needed);
  $("run-said").textContent =
    `${percent} %: ${computed} of ${needed} chunks computed, ${written} written, ${size(bytes)}`;
}

function busy(is: boolean): void {
  $<HTMLButtonElement>("run-start").disabled = is;
  $<HTMLButtonElement>("run-cancel").disabled = !is;
}

async function save(): Promise<void> {
  await doing("saving …", async () => {
    const asked = askedRun();
    const name = $("run-name").value.trim();
    const target = await targetAsked(name);
    running = count++;
    last = undefined;
    const sleep = keepAwake();
    busy(true);
    try {
      const result = await client.call("materialize", running, asked, target);
      const words =
        `saved ${name}: ${result.shape.join(" × ")}, ${counted(result.written, "chunk")} written, ${result.skipped} empty, ` +
        `${size(result.bytes)} in ${result.seconds.toFixed(1)} s`;
      // What was saved opens as a layer, where it can be read back.
      if (target.kind === "folder" || target.kind === "opfs") {
        now.saved = await client.call("saved", target);
        savedOne();
      }
      return words;
    } catch (thrown) {
      const { name: kind, message } = thrown as Error;
      throw new Error(stopped(kind === "AbortError" ? "cancelled" : message, target, name));
    } finally {
      sleep();
      running = undefined;
      busy(false);
    }
  });
}

/** Makes the tab work. */
export function startRun(): void {
  client.onStream = (_, stream) => {
    const name = $("run-name")
      .value.trim()
      .replace(/(\.zip)?$/, ".zip");
    download(stream, name).catch((thrown: Error) => say(`the zip was not finished: ${thrown.message}`, true));
  };
  client.onProgress = (run, progress) => run === running && showProgress(progress);
  $<HTMLFormElement>("run-form").addEventListener("change", ({ target }) => {
    const { id } = target as HTMLElement;
    if (id === "run-volume") volumeChosen = true;
    if (id === "run-lo" || id === "run-hi") void changed();
    else if (id === "run-unit") void inUnit();
    else void plan();
  });
  $<HTMLFormElement>("run-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (running === undefined) void save();
  });
  for (const what of ["all", "here"] as const) {
    $(`run-${what}`).addEventListener("click", () => doing("", () => boxFrom(what).then(() => "")));
  }
  $("run-cancel").addEventListener("click", () => running !== undefined && client.call("cancel", running));
}

/** The same box in the unit that was chosen. */
async function inUnit(): Promise<void> {
  const shown = shownOfRun();
  const before = unit() === "nm" ? "voxels" : "nm";
  try {
    if (!shown) return;
    const box = parseBox(shown, level(), $("run-lo").value, $("run-hi").value, before);
    const text = typed(shown, level(), box, unit());
    $("run-lo").value = text.lo;
    $("run-hi").value = text.hi;
  } catch {
    // What was typed is no box yet: it stays as it is, and the plan says so.
  }
  if (now.state.box) await changed();
  else await plan();
}
