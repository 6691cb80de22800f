/** Our Neuroglancer: the released package, made into a viewer in an element of the page. */

import "neuroglancer";
import {
  bindDefaultCopyHandler,
  bindDefaultPasteHandler,
} from "neuroglancer/unstable/ui/default_clipboard_handling.js";
import { setDefaultInputEventBindings } from "neuroglancer/unstable/ui/default_input_event_bindings.js";
import { makeDefaultViewer } from "neuroglancer/unstable/ui/default_viewer.js";
import type { Viewer } from "./viewer.ts";

export { type BoxDrawn, drawBoxes } from "./draw.ts";
export { setLayer } from "./layers.ts";
export type { Viewer } from "./viewer.ts";

/** Makes a viewer that fills an element. Its state is not kept in the page's address: the page's own state is. */
export function makeViewer(target: HTMLElement): Viewer {
  const viewer = makeDefaultViewer({ target });
  setDefaultInputEventBindings(viewer.inputEventBindings);
  bindDefaultCopyHandler(viewer);
  bindDefaultPasteHandler(viewer);
  return viewer as unknown as Viewer;
}
