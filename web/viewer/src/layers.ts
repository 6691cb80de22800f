/** One layer of a viewer put in, or put in another's place, the rest of the view left as it is. */

import { makeLayer } from "neuroglancer/unstable/layer/index.js";
import type { ManagedLayer, Viewer } from "./viewer.ts";

/** Puts a layer where the one of its name was, or last. Without `json` the layer is taken out. */
export function setLayer(viewer: Viewer, name: string, json?: unknown): void {
  const old = viewer.layerManager.getLayerByName(name);
  const index = old ? viewer.layerManager.managedLayers.indexOf(old) : undefined;
  // The new one first: chunks that both show stay in memory.
  const layer =
    json === undefined
      ? undefined
      : (makeLayer(viewer.layerSpecification as never, name, json) as unknown as ManagedLayer);
  if (old) viewer.layerManager.removeManagedLayer(old);
  if (layer) viewer.layerSpecification.add(layer, index);
}
