/**
 * From a location to a volume: what is stored there (zarr v2, v3, N5; an array or a group of levels), and where it
 * lies in the world.
 */

import { digestOf } from "../digest.ts";
import { MetadataError, VolumeNotFoundError } from "../errors.ts";
import type { Vec3 } from "../geometry.ts";
import type { Kind, Volume } from "../volume.ts";
import { datasetVolume, type PlacedArray, type Select } from "./dataset.ts";
import { isN5Array, n5Array } from "./n5.ts";
import {
  type Attributes,
  cleanAxes,
  defaultAxes,
  type Found,
  legacyPlacement,
  type Multiscale,
  type OmeDataset,
  omePlacement,
  parseMultiscales,
} from "./placement.ts";
import { httpStore, type ReadStore } from "./store.ts";
import type { StoredArray } from "./stored.ts";
import { zarrArray } from "./zarr.ts";

export interface OpenOptions {
  /** The name the volume gets; the last part of its path unless told. */
  readonly name?: string;
  /** The folder inside the store. */
  readonly path?: string;
  readonly voxelSize?: Vec3;
  readonly select?: Select;
  readonly kind?: Kind;
  readonly dimensionSeparator?: "." | "/";
  readonly signal?: AbortSignal;
}

/** One folder of a store with the metadata found in it. */
interface Node {
  readonly path: string;
  readonly format: "zarr2" | "zarr3" | "n5";
  readonly document?: { [member: string]: unknown };
  readonly attributes: Attributes;
}

const join = (...parts: string[]) => {
  const out: string[] = [];
  for (const part of parts.join("/").split("/")) {
    if (part === "..") out.pop();
    else if (part && part !== ".") out.push(part);
  }
  return out.join("/");
};

async function json(store: ReadStore, key: string, signal?: AbortSignal): Promise<Attributes | undefined> {
  const bytes = await store.get(key, signal);
  if (!bytes) return undefined;
  const text = new TextDecoder().decode(bytes);
  if (/^\s*</.test(text)) return undefined; // a web page, as some hosts answer for what is not there
  try {
    // zarr v2 writers left NaN and Infinity bare, which is not JSON.
    const strict = text.replace(/(:\s*)(NaN|-?Infinity)\b/g, '$1"$2"');
    // A 64-bit fill value is more than a JavaScript number holds: it is kept as text, and read as a BigInt.
    const value: unknown = JSON.parse(strict.replace(/("fill_value"\s*:\s*)(-?\d{16,})/, '$1"$2"'));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Attributes;
  } catch (thrown) {
    throw new MetadataError(`${store.name}/${key} is no JSON: ${(thrown as Error).message}`, {
      cause: thrown,
    });
  }
  throw new MetadataError(`${store.name}/${key} holds no JSON object`);
}

async function nodeAt(store: ReadStore, path: string, signal?: AbortSignal): Promise<Node | undefined> {
  const get = (file: string) => json(store, join(path, file), signal);
  const [v3, zarray, zattrs, zgroup, n5] = await Promise.all(
    ["zarr.json", ".zarray", ".zattrs", ".zgroup", "attributes.json"].map(get),
  );
  if (v3) {
    const attributes = (v3.attributes ?? {}) as Attributes;
    return { path, format: "zarr3", document: v3.node_type === "array" ? { ...v3 } : undefined, attributes };
  }
  if (zarray) return { path, format: "zarr2", document: { ...zarray }, attributes: zattrs ?? {} };
  if (zgroup || zattrs) return { path, format: "zarr2", attributes: zattrs ?? {} };
  if (n5) return { path, format: "n5", document: isN5Array(n5) ? { ...n5 } : undefined, attributes: n5 };
  return undefined;
}

async function arrayOf(store: ReadStore, node: Node, options: OpenOptions): Promise<StoredArray> {
  if (node.format === "n5") return n5Array(store, node.path, node.attributes);
  const document = { ...node.document };
  if (node.format === "zarr2") {
    if (options.dimensionSeparator) document.dimension_separator = options.dimensionSeparator;
    else if (document.dimension_separator === undefined) await checkSeparator(store, node, document);
  }
  return zarrArray(store, node.path, document, node.attributes);
}

/** An array that names no separator has keys with dots; one that has keys with slashes all the same is refused. */
async function checkSeparator(
  store: ReadStore,
  node: Node,
  document: { [m: string]: unknown },
): Promise<void> {
  const ndim = Array.isArray(document.shape) ? document.shape.length : 0;
  if (ndim < 2) return;
  const first = (separator: string) => join(node.path, Array(ndim).fill(0).join(separator));
  if (await store.get(first("."))) return;
  if (await store.get(first("/"))) {
    throw new MetadataError(
      `${store.name}/${join(node.path, ".zarray")} names no dimension_separator, which means ".", but its chunks are ` +
        `stored with "/": open it with dimensionSeparator "/"`,
    );
  }
}

/** The multiscale of a group, and its kind: an `image-label` holds labels. */
function multiscaleOf(store: ReadStore, node: Node): Multiscale | undefined {
  const where = `${store.name}/${node.path}`;
  const ome = node.attributes.ome;
  const v05 = typeof ome === "object" && ome !== null ? (ome as Attributes).multiscales : undefined;
  return parseMultiscales(v05 ?? node.attributes.multiscales, where);
}

const isLabels = (attributes: Attributes): boolean =>
  "image-label" in attributes ||
  (typeof attributes.ome === "object" && "image-label" in (attributes.ome as object));

function factorsOf(value: unknown, ndim: number): number[] | undefined {
  if (!Array.isArray(value) || value.length !== ndim || value.some((n) => typeof n !== "number" || !(n > 0)))
    return undefined;
  return [...value].reverse();
}

/** A resolution times the factors of a level, whose first voxel begins where the finest's does. */
function scaled(found: Found, factors: number[] | undefined): Found {
  if (!found.voxelSize || !factors || factors.length < 3) return found;
  const last = factors.slice(-3);
  return { ...found, voxelSize: found.voxelSize.map((v, a) => v * last[a]) as unknown as Vec3 };
}

/** What a placement leaves open is filled in: the array's own attributes, then the group's, then 1 nm at 0. */
function placed(array: StoredArray, found: readonly Found[], options: OpenOptions): PlacedArray {
  const ndim = array.shape.length;
  const named = array.names?.every((n) => typeof n === "string") ? cleanAxes(array.names, ndim) : undefined;
  const pick = <K extends keyof Found>(member: K) => found.find((f) => f[member])?.[member];
  return {
    array,
    axes: pick("axes") ?? named ?? defaultAxes(ndim),
    voxelSize: options.voxelSize ?? pick("voxelSize") ?? [1, 1, 1],
    corner: pick("corner") ?? [0, 0, 0],
  };
}

/** Levels of a group that lists none: `s0`, `s1`, … (N5), with the group's resolution and each level's factors. */
async function listedLevels(store: ReadStore, node: Node, options: OpenOptions): Promise<PlacedArray[]> {
  const out: PlacedArray[] = [];
  for (let i = 0; ; i++) {
    const child = await nodeAt(store, join(node.path, `s${i}`), options.signal);
    if (!child?.document) return out;
    const array = await arrayOf(store, child, options);
    out.push(placed(array, n5Found(store, node, child, i, array.shape.length), options));
  }
}

/** What an N5 level and its group say. The group's base resolution wins where it lists factors. */
function n5Found(store: ReadStore, group: Node | undefined, level: Node, i: number, ndim: number): Found[] {
  const xFirst = level.format === "n5";
  const own = legacyPlacement(level.attributes, ndim, `${store.name}/${level.path}`, xFirst);
  const ownFactors = factorsOf(level.attributes.downsamplingFactors, ndim);
  if (!group) return [scaled(own, "transform" in level.attributes ? undefined : ownFactors)];
  const base = legacyPlacement(group.attributes, ndim, `${store.name}/${group.path}`, xFirst);
  const listed = group.attributes.scales ?? group.attributes.downsamplingFactors;
  const factors = factorsOf(Array.isArray(listed) ? listed[i] : undefined, ndim) ?? ownFactors;
  if ("transform" in level.attributes) return [own, base];
  if (base.voxelSize && factors) return [scaled(base, factors), own];
  return [scaled(own, ownFactors), base];
}

/** Opens a volume. `location` is a URL (http, https, s3, gs) or a store. */
export async function openVolume(location: string | ReadStore, options: OpenOptions = {}): Promise<Volume> {
  const store = typeof location === "string" ? httpStore(location) : location;
  const path = join(options.path ?? "");
  const where = [store.name, path].filter(Boolean).join("/");
  const node = await nodeAt(store, path, options.signal);
  if (!node) {
    throw new VolumeNotFoundError(
      `${where} is not a volume: there is no zarr.json, .zarray, .zgroup or attributes.json; give the folder of an array or of its levels`,
    );
  }
  const { arrays, kind, more } = await arraysAt(store, node, options);
  if (arrays.length === 0) {
    throw new VolumeNotFoundError(
      `${where} is a group without levels: give the folder of an array or of its levels`,
    );
  }
  const base = where.split("/").filter(Boolean).at(-1) ?? "volume";
  const name = options.name ?? base.replace(/\.(zarr|n5)$/i, "");
  const { dtype } = arrays[0].array;
  const digest = digestOf({
    where,
    select: options.select ?? {},
    levels: arrays.map(({ array, axes, voxelSize, corner }) => [
      array.shape,
      array.chunk,
      array.dtype,
      axes,
      voxelSize,
      corner,
    ]),
    states: more.map((key) => store.state?.(key) ?? ""),
  });
  const wide = ["int32", "uint32", "int64", "uint64"].includes(dtype); // ids, as the Python engine has it
  const guessed: Kind = kind ?? (dtype === "bool" ? "mask" : wide ? "labels" : "image");
  return datasetVolume({ name, kind: options.kind ?? guessed, digest, arrays, select: options.select });
}

async function arraysAt(store: ReadStore, node: Node, options: OpenOptions) {
  const metadata = (at: Node) =>
    ["zarr.json", ".zarray", ".zattrs", "attributes.json"].map((f) => join(at.path, f));
  if (node.document) {
    const array = await arrayOf(store, node, options);
    const parent = await listedAbove(store, node, options);
    const ndim = array.shape.length;
    const found: Found[] = [];
    if (parent?.dataset) found.push(omePlacement(parent.multiscale!, parent.dataset, ndim));
    const level = Number(/(?:^|\/)s(\d+)$/.exec(node.path)?.[1] ?? 0);
    found.push(...n5Found(store, parent?.node.format === "n5" ? parent.node : undefined, node, level, ndim));
    const kind: Kind | undefined = parent && isLabels(parent.node.attributes) ? "labels" : undefined;
    return { arrays: [placed(array, found, options)], kind, more: metadata(node) };
  }
  const kind: Kind | undefined = isLabels(node.attributes) ? "labels" : undefined;
  const multiscale = multiscaleOf(store, node);
  if (!multiscale) return { arrays: await listedLevels(store, node, options), kind, more: metadata(node) };
  const arrays = await Promise.all(
    multiscale.datasets.map((dataset) => datasetAt(store, node, multiscale, dataset, options)),
  );
  return { arrays, kind, more: metadata(node) };
}

async function datasetAt(
  store: ReadStore,
  group: Node,
  multiscale: Multiscale,
  dataset: OmeDataset,
  options: OpenOptions,
): Promise<PlacedArray> {
  const child = await nodeAt(store, join(group.path, dataset.path), options.signal);
  if (!child?.document) {
    throw new MetadataError(
      `${multiscale.where}: lists the level ${JSON.stringify(dataset.path)}, where no array is`,
    );
  }
  const array = await arrayOf(store, child, options);
  const ndim = array.shape.length;
  const own = legacyPlacement(child.attributes, ndim, `${store.name}/${child.path}`, child.format === "n5");
  return placed(array, [omePlacement(multiscale, dataset, ndim), own], options);
}

/** The group above an array, and the entry of its multiscale that is the array. Looks up to three folders up. */
async function listedAbove(store: ReadStore, node: Node, options: OpenOptions) {
  const parts = node.path.split("/").filter(Boolean);
  let nearest: { node: Node; multiscale?: Multiscale; dataset?: OmeDataset } | undefined;
  for (let up = 1; up <= Math.min(3, parts.length); up++) {
    const above = await nodeAt(store, parts.slice(0, -up).join("/"), options.signal).catch(() => undefined);
    if (!above) continue;
    nearest ??= { node: above };
    const multiscale = multiscaleOf(store, above);
    const dataset = multiscale?.datasets.find((d) => join(above.path, d.path) === node.path);
    if (multiscale && dataset) return { node: above, multiscale, dataset };
  }
  return nearest;
}
