/** Our Neuroglancer: the released package, made into a viewer in an element of the page. */

import "neuroglancer";
import {
  bindDefaultCopyHandler,
  bindDefaultPasteHandler,
} from "neuroglancer/unstable/ui/default_clipboard_handling.js";
import { setDefaultInputEventBindings } from "neuroglancer/unstable/ui/default_input_event_bindings.js";
import { disableContextMenu, disableWheel } from "neuroglancer/unstable/ui/disable_default_actions.js";
import { makeMinimalViewer } from "neuroglancer/unstable/ui/minimal_viewer.js";
import type { Viewer } from "./viewer.ts";

export { type BoxDrawn, drawBoxes } from "./draw.ts";
export { setLayer } from "./layers.ts";
export type { Viewer } from "./viewer.ts";

/** Makes a viewer that fills an element. Its state is not kept in the page's address: the page's own state is. */
export function makeViewer(target: HTMLElement): Viewer {
  // Not its default viewer: that one's style sheet makes the whole page black.
  disableContextMenu();
  disableWheel();
  const viewer = makeMinimalViewer({ target });
  setDefaultInputEventBindings(viewer.inputEventBindings);
  bindDefaultCopyHandler(viewer);
  bindDefaultPasteHandler(viewer);
  return viewer as unknown as Viewer;
}
