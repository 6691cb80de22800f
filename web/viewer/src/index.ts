/** Our Neuroglancer: the released package, made into a viewer in an element of the page. */

import "neuroglancer";
import { setupDefaultViewer } from "neuroglancer/unstable/ui/default_viewer_setup.js";

/** What this project uses of Neuroglancer's viewer. */
export interface Viewer {
  readonly state: {
    restoreState(json: unknown): void;
    toJSON(): unknown;
  };
  readonly display: { draw(): void };
}

/** Makes a viewer that fills an element. */
export function makeViewer(target: HTMLElement): Viewer {
  return setupDefaultViewer({ target }) as unknown as Viewer;
}
