/** The viewer's state for volumes of the engine: layers, dimensions, where it looks. */

import type { Shown } from "./messages.ts";
import type { Look } from "./state.ts";

/** The layer of a volume. `base` is where the engine's volumes are found. */
export function layerOf(shown: Shown, base: string): { readonly [member: string]: unknown } {
  const source = `${base}/${encodeURIComponent(shown.viewed)}/zarr2/|zarr2:`;
  if (shown.kind === "labels") return { type: "segmentation", name: shown.name, source };
  // What is computed is drawn over the raw data, in red.
  const shader =
    shown.kind === "mask"
      ? "void main() { float v = toRaw(getDataValue()) > 0.0 ? 1.0 : 0.0; emitRGBA(vec4(1.0, 0.2, 0.1, 0.5 * v)); }"
      : shown.dtype.startsWith("float")
        ? "#uicontrol invlerp normalized(range=[0, 1])\nvoid main() { emitRGBA(vec4(1.0, 0.3, 0.1, normalized())); }"
        : undefined;
  const over = shown.name !== "raw" && shader ? { shader, blend: "default", opacity: 0.6 } : {};
  return { type: "image", name: shown.name, source, ...over };
}

/** Metres per voxel, by axis, as the viewer has its dimensions. */
export function dimensionsOf({ levels }: Shown): { readonly [axis: string]: readonly [number, string] } {
  const size = levels[0].voxelSize;
  return Object.fromEntries(["x", "y", "z"].map((axis, i) => [axis, [size[2 - i] * 1e-9, "m"]]));
}

/** Chunks in view when a volume is opened, at most: what takes long, or has small chunks, is looked at from near. */
const CHUNKS_IN_VIEW = 250;
const DEAR_IN_VIEW = 12;
const PIXELS = 1000 * 700;

/** A state that shows the volumes, looking where `look` says, or at the middle of the first. */
export function viewerState(volumes: readonly Shown[], base: string, look?: Look): unknown {
  const [{ levels }] = volumes;
  const { voxelSize, shape, corner } = levels[0];
  const areas = volumes.map(
    ({ dear, levels: [{ chunk }] }) => (dear ? DEAR_IN_VIEW : CHUNKS_IN_VIEW) * chunk[1] * chunk[2],
  );
  const near = Math.sqrt(Math.min(...areas) / PIXELS);
  return {
    dimensions: dimensionsOf(volumes[0]),
    position: [2, 1, 0].map((a) => corner[a] / voxelSize[a] + shape[a] / 2),
    crossSectionScale: Math.min(Math.max(shape[1], shape[2]) / 1000, near),
    layout: "xy",
    ...look,
    layers: volumes.map((shown) => layerOf(shown, base)),
  };
}

/** A box in nm (z, y, x) as a layer of lines. */
export function boxLayer(raw: Shown, lo: readonly number[], hi: readonly number[]): unknown {
  const size = raw.levels[0].voxelSize;
  const point = (nm: readonly number[]) => [2, 1, 0].map((a) => nm[a] / size[a]);
  return {
    type: "annotation",
    name: "box",
    source: { url: "local://annotations", transform: { outputDimensions: dimensionsOf(raw) } },
    annotationColor: "#ffd400",
    annotations: [{ type: "axis_aligned_bounding_box", id: "box", pointA: point(lo), pointB: point(hi) }],
  };
}
