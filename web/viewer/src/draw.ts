/**
 * A box drawn with the mouse: while drawing is on, a drag over a panel spans two of the box's axes, and Neuroglancer
 * does not move. Positions come from Neuroglancer, so panels of any orientation and zoom work.
 */

import type { Viewer } from "./viewer.ts";

/** The corners of a drag, in the viewer's voxels (x, y, z). An axis the panel does not show has one value twice. */
export interface BoxDrawn {
  readonly from: readonly [number, number, number];
  readonly to: readonly [number, number, number];
}

type Point = readonly [number, number, number];

/** Turns drawing on; gives what turns it off. `drawn` gets each drag that spans two axes. */
export function drawBoxes(viewer: Viewer, element: HTMLElement, drawn: (box: BoxDrawn) => void): () => void {
  let start: { readonly at: Point; readonly x: number; readonly y: number } | undefined;
  const mark = document.createElement("div");
  mark.className = "box-drawn";
  Object.assign(mark.style, {
    position: "fixed",
    border: "2px solid #ffd400",
    background: "rgb(255 212 0 / 15%)",
    pointerEvents: "none",
    zIndex: "10",
  });

  const position = (): Point | undefined => {
    const { mouseState } = viewer;
    if (!mouseState.updateUnconditionally()) return undefined;
    const [x, y, z] = mouseState.unsnappedPosition;
    return [x, y, z].every(Number.isFinite) ? [x, y, z] : undefined;
  };
  const inPanel = (event: Event) =>
    event.target instanceof Element && event.target.closest(".neuroglancer-rendered-data-panel") !== null;

  const down = (event: MouseEvent) => {
    if (event.button !== 0 || !inPanel(event)) return;
    const at = position();
    event.stopPropagation();
    event.preventDefault();
    if (!at) return;
    start = { at, x: event.clientX, y: event.clientY };
    element.append(mark);
    resize(event);
  };
  const resize = (event: MouseEvent) => {
    if (!start) return;
    const { x, y } = start;
    mark.style.left = `${Math.min(x, event.clientX)}px`;
    mark.style.top = `${Math.min(y, event.clientY)}px`;
    mark.style.width = `${Math.abs(event.clientX - x)}px`;
    mark.style.height = `${Math.abs(event.clientY - y)}px`;
  };
  const up = (event: MouseEvent) => {
    if (!start) return;
    const from = start.at;
    start = undefined;
    mark.remove();
    event.stopPropagation();
    const to = position();
    const spanned = to && from.filter((v, a) => Math.abs(v - to[a]) > 1e-3).length;
    if (to && spanned === 2) drawn({ from, to });
  };
  const giveUp = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    start = undefined;
    mark.remove();
  };

  element.addEventListener("mousedown", down, true);
  window.addEventListener("mousemove", resize);
  window.addEventListener("mouseup", up, true);
  window.addEventListener("keydown", giveUp);
  element.style.cursor = "crosshair";
  return () => {
    element.removeEventListener("mousedown", down, true);
    window.removeEventListener("mousemove", resize);
    window.removeEventListener("mouseup", up, true);
    window.removeEventListener("keydown", giveUp);
    element.style.cursor = "";
    mark.remove();
  };
}
