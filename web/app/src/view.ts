/** The View tab: Neuroglancer over the engine's volumes, the chain's sliders beside it, and a box drawn by mouse. */

import type { BoxDrawn, Viewer } from "@chunkloom/viewer";
import { boxLayer, layerOf, viewerState } from "./layers.ts";
import { $, doing, settled } from "./page.ts";
import { boxInNm, boxTyped, setBoxFromNm, shownOfRun } from "./run.ts";
import { base, change, client, now } from "./session.ts";
import { lookOf } from "./state.ts";

type Package = typeof import("@chunkloom/viewer");
let loaded: Promise<{ readonly made: Viewer; readonly viewer: Package }> | undefined;
/** What the viewer shows: a volume's viewed name by its layer's. */
const layers = new Map<string, string>();
let boxShown = "";
let stopDrawing: (() => void) | undefined;

/** The viewer, once it was opened. */
export const viewer = async () => (await loaded)?.made;

async function load() {
  const viewer = await import("@chunkloom/viewer");
  const made = viewer.makeViewer($<HTMLElement>("viewer"));
  const keep = () => {
    // Not of a volume that is shown no more.
    if (now.raw && layers.get("raw") === now.raw.viewed) change({ look: lookOf(made.state.toJSON()) });
  };
  made.state.changed.add(settled(300, keep));
  return { made, viewer };
}

/** Whether the viewer is looked at. While it is not, what it waits for is not computed: a run has the engine alone. */
export async function seen(is: boolean): Promise<void> {
  const made = await viewer();
  await client.call("looking", is);
  if (made) made.visibility.value = is ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
}

/** Shows what is open. The view stays where it is unless another volume was opened. */
export async function showView(): Promise<void> {
  await doing("", async () => {
    if (!now.raw) throw new Error("open data first, under Data");
    loaded ??= load();
    const [at, { made, viewer }] = await Promise.all([base, loaded]);
    const volumes = [now.raw, now.computed, now.saved].filter((volume) => volume !== undefined);
    if (layers.get("raw") !== now.raw.viewed) {
      made.state.reset();
      made.state.restoreState(viewerState(volumes, at, now.state.look));
      layers.clear();
      boxShown = "";
    } else {
      for (const shown of volumes) {
        if (layers.get(shown.name) !== shown.viewed) viewer.setLayer(made, shown.name, layerOf(shown, at));
      }
      for (const name of layers.keys()) {
        if (!volumes.some((shown) => shown.name === name)) viewer.setLayer(made, name);
      }
    }
    layers.clear();
    for (const { name, viewed } of volumes) layers.set(name, viewed);
    await showBox();
    const notes = volumes
      .filter((volume) => volume.viewedAs)
      .map(
        (volume) =>
          `Neuroglancer cannot show ${volume.dtype}: ${volume.name} is shown as ${volume.viewedAs}, and saved as it is`,
      );
    return notes.join("; ");
  });
}

/** Draws the box of the Run tab, where it was chosen. */
export async function showBox(): Promise<void> {
  if (!loaded || !now.raw || layers.size === 0) return;
  const { made, viewer } = await loaded;
  const box = now.state.box && boxInNm();
  const wanted = box ? JSON.stringify(box) : "";
  if (wanted !== boxShown) {
    viewer.setLayer(made, "box", box && boxLayer(now.raw, box.lo, box.hi));
    boxShown = wanted;
  }
  $("view-box").textContent = box ? boxTyped() : "";
}

/** A drag: two axes of the box are set; the third keeps what it has, or is one chunk around where the drag was. */
function drawn({ from, to }: BoxDrawn): void {
  const shown = shownOfRun();
  if (!shown || !now.raw) return;
  const size = now.raw.levels[0].voxelSize;
  const { voxelSize, chunk } = shown.levels[0];
  const before = now.state.box && boxInNm();
  const sides = [0, 1, 2].map((a) => {
    const [p, q] = [from[2 - a] * size[a], to[2 - a] * size[a]];
    if (Math.abs(p - q) > 1e-3 * size[a]) return [Math.min(p, q), Math.max(p, q)];
    if (before && before.lo[a] <= p && p <= before.hi[a]) return [before.lo[a], before.hi[a]];
    const half = (chunk[a] * voxelSize[a]) / 2;
    return [p - half, p + half];
  });
  void doing("", async () => {
    await setBoxFromNm(
      sides.map(([lo]) => lo),
      sides.map(([, hi]) => hi),
    );
    return "box drawn: draw in another panel for its depth, or save it under Run";
  });
}

/** Makes the tab work. */
export function startView(): void {
  const draw = $<HTMLButtonElement>("view-draw");
  draw.addEventListener("click", async () => {
    if (stopDrawing) {
      stopDrawing();
      stopDrawing = undefined;
    } else if (loaded) {
      const { made, viewer } = await loaded;
      stopDrawing = viewer.drawBoxes(made, $<HTMLElement>("viewer"), drawn);
    }
    draw.setAttribute("aria-pressed", String(!!stopDrawing));
  });
  $("view-panel").addEventListener("click", () => {
    const aside = $("view-aside");
    aside.hidden = !aside.hidden;
    $("view-panel").setAttribute("aria-expanded", String(!aside.hidden));
  });
}
