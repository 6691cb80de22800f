/** The viewer's state for volumes of the engine: layers, dimensions, where it looks. */

import type { Shown } from "./messages.ts";

function layer(shown: Shown, base: string) {
  const labels = shown.kind === "labels";
  const source = `${base}/${encodeURIComponent(`${shown.name}-shown`)}/zarr2/|zarr2:`;
  if (labels) return { type: "segmentation", name: shown.name, source };
  const computed = shown.name !== "raw";
  // What is computed is drawn over the raw data, in red.
  const shader =
    shown.kind === "mask"
      ? "void main() { float v = toRaw(getDataValue()) > 0.0 ? 1.0 : 0.0; emitRGBA(vec4(1.0, 0.2, 0.1, 0.5 * v)); }"
      : shown.dtype.startsWith("float")
        ? "#uicontrol invlerp normalized(range=[0, 1])\nvoid main() { emitRGBA(vec4(1.0, 0.3, 0.1, normalized())); }"
        : undefined;
  return {
    type: "image",
    name: shown.name,
    source,
    ...(computed && shader ? { shader, blend: "default" } : {}),
  };
}

/** Chunks in view when a volume is opened, at most: a model whose chunks are small is looked at from near. */
const CHUNKS_IN_VIEW = 250;
const PIXELS = 1000 * 700;

/** A state that shows the volumes, looking at the middle of the first. */
export function viewerState(volumes: readonly Shown[], base: string): unknown {
  const [{ levels }] = volumes;
  const { voxelSize, shape } = levels[0];
  const areas = volumes.map((shown) => shown.levels[0].chunk[1] * shown.levels[0].chunk[2]);
  const near = Math.sqrt((CHUNKS_IN_VIEW * Math.min(...areas)) / PIXELS);
  const dimensions = Object.fromEntries(
    ["x", "y", "z"].map((axis, i) => [axis, [voxelSize[2 - i] * 1e-9, "m"]]),
  );
  return {
    dimensions,
    position: [2, 1, 0].map((a) => levels[0].corner[a] / voxelSize[a] + shape[a] / 2),
    crossSectionScale: Math.min(Math.max(shape[1], shape[2]) / 1000, near),
    layout: "xy",
    layers: volumes.map((shown) => layer(shown, base)),
  };
}
