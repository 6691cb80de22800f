/**
 * Where an array's voxels lie, from the attributes people's files have: OME-NGFF, N5 and their relatives. Takes
 * parsed JSON, gives nm on z, y, x. OME's translation is the centre of voxel 0; all older conventions (`offset`,
 * `translate`) are its lower corner.
 */

import { MetadataError } from "../errors.ts";
import { omeCorner, type Vec3, vec3 } from "../geometry.ts";
import { toNm } from "./units.ts";

export type Attributes = { readonly [member: string]: unknown };

/** What attributes say; undefined where they say nothing. */
export interface Found {
  readonly axes?: readonly string[];
  readonly voxelSize?: Vec3;
  readonly corner?: Vec3;
}

export interface OmeDataset {
  readonly path: string;
  readonly scale?: readonly number[];
  readonly translation?: readonly number[];
  readonly legacy?: Attributes;
}

export interface Multiscale {
  readonly name?: string;
  readonly axes?: readonly { readonly name: string; readonly type: string; readonly unit?: string }[];
  readonly datasets: readonly OmeDataset[];
  readonly where: string;
}

const SPACE = ["z", "y", "x"] as const;

const isObject = (value: unknown): value is Attributes =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function brief(value: unknown): string {
  return (JSON.stringify(value) ?? "undefined").slice(0, 60);
}

function numbers(value: unknown, where: string): number[] {
  if (!Array.isArray(value) || value.some((n) => typeof n !== "number" || !Number.isFinite(n))) {
    throw new MetadataError(`${where} is ${brief(value)}; expected a list of numbers`);
  }
  return value;
}

function sizes(value: unknown, where: string): number[] {
  const found = numbers(value, where);
  if (found.some((n) => n <= 0))
    throw new MetadataError(`${where} is ${brief(value)}; expected numbers above 0`);
  return found;
}

/** Names for an array that gives none: the last three are z, y, x, then c, then t before them. */
export function defaultAxes(ndim: number): string[] {
  const names = ["t", "c", "z", "y", "x"];
  const more = Array.from({ length: Math.max(0, ndim - 5) }, (_, i) => `d${i}`);
  return [...more, ...names.slice(Math.max(0, 5 - ndim))];
}

/** Axis names in lower case, without the `^` that marks a channel; unnamed or repeated ones by `defaultAxes`. */
export function cleanAxes(names: readonly unknown[] | undefined, ndim: number): string[] {
  if (!names || names.length !== ndim) return defaultAxes(ndim);
  const long: Record<string, string> = { channel: "c", channels: "c", time: "t" };
  const cleaned = names.map((name) => {
    const word = String(name ?? "")
      .trim()
      .toLowerCase()
      .replace(/\^+$/, "");
    return long[word] ?? word;
  });
  return new Set(cleaned).size === ndim && cleaned.every(Boolean) ? cleaned : defaultAxes(ndim);
}

/** The transforms of a list after what came before: p = s * (scale * i + translation) + t. */
function compose(
  value: unknown,
  before: { scale?: readonly number[]; translation?: readonly number[] },
  where: string,
): { scale?: readonly number[]; translation?: readonly number[] } {
  if (value === undefined || value === null) return before;
  if (!Array.isArray(value)) throw new MetadataError(`${where} is ${brief(value)}; expected a list`);
  let { scale, translation } = before;
  value.forEach((entry, i) => {
    const at = `${where}[${i}]`;
    const kind = isObject(entry) ? entry.type : undefined;
    if (kind === "identity") return;
    if (kind !== "scale" && kind !== "translation") {
      throw new MetadataError(`${at}.type is ${brief(kind)}; expected identity, scale or translation`);
    }
    const given =
      kind === "scale" ? sizes(entry.scale, `${at}.scale`) : numbers(entry.translation, `${at}.translation`);
    for (const other of [scale, translation]) {
      if (other && other.length !== given.length) {
        throw new MetadataError(`${at} has ${given.length} entries, the transform before it ${other.length}`);
      }
    }
    if (kind === "scale") {
      scale = scale ? scale.map((s, a) => given[a] * s) : given;
      translation = translation?.map((t, a) => given[a] * t);
    } else translation = translation ? translation.map((t, a) => given[a] + t) : given;
  });
  return { scale, translation };
}

/** The first multiscale of a `multiscales` list; undefined where there is none. */
export function parseMultiscales(value: unknown, where: string): Multiscale | undefined {
  if (!Array.isArray(value) || value.length === 0 || !isObject(value[0])) return undefined;
  const entry = value[0];
  const at = `${where}: multiscales[0]`;
  const axes = Array.isArray(entry.axes)
    ? entry.axes.map((axis) => {
        if (typeof axis === "string") {
          return { name: axis, type: (SPACE as readonly string[]).includes(axis) ? "space" : "" };
        }
        const member = isObject(axis) ? axis : {};
        const unit = typeof member.unit === "string" ? member.unit : undefined;
        return { name: String(member.name ?? ""), type: String(member.type ?? ""), unit };
      })
    : undefined;
  if (!Array.isArray(entry.datasets))
    throw new MetadataError(`${at}.datasets is ${brief(entry.datasets)}; expected a list`);
  const datasets = entry.datasets.map((item, i): OmeDataset => {
    const member = isObject(item) ? item : {};
    if (typeof member.path !== "string") {
      throw new MetadataError(`${at}.datasets[${i}].path is ${brief(member.path)}; expected text`);
    }
    const own = compose(
      member.coordinateTransformations,
      {},
      `${at}.datasets[${i}].coordinateTransformations`,
    );
    const all = compose(entry.coordinateTransformations, own, `${at}.coordinateTransformations`);
    return { path: member.path, ...all, legacy: isObject(member.transform) ? member.transform : undefined };
  });
  return { name: typeof entry.name === "string" ? entry.name : undefined, axes, datasets, where };
}

/** Names of an OME array's axes; three space axes of other names count as z, y, x in their order. */
function omeAxes(multiscale: Multiscale, ndim: number): string[] {
  if (!multiscale.axes) return defaultAxes(ndim);
  const names = cleanAxes(
    multiscale.axes.map((axis) => axis.name),
    ndim,
  );
  const space = multiscale.axes.flatMap((axis, i) => (axis.type === "space" ? [i] : []));
  if (!SPACE.every((axis) => names.includes(axis)) && space.length === 3) {
    space.forEach((i, k) => {
      names[i] = SPACE[k];
    });
  }
  return names;
}

/** Where a level of an OME multiscale lies. */
export function omePlacement(multiscale: Multiscale, dataset: OmeDataset, ndim: number): Found {
  const where = `${multiscale.where}, dataset ${JSON.stringify(dataset.path)}`;
  if (multiscale.axes && multiscale.axes.length !== ndim) {
    throw new MetadataError(
      `${where}: the multiscale has ${multiscale.axes.length} axes, the array ${ndim} dimensions`,
    );
  }
  if (!dataset.scale && dataset.legacy) {
    const found = legacyPlacement({ transform: dataset.legacy }, ndim, where, false);
    return { ...found, axes: found.axes ?? (multiscale.axes ? omeAxes(multiscale, ndim) : undefined) };
  }
  const axes = omeAxes(multiscale, ndim);
  if (!dataset.scale && !dataset.translation) return { axes };
  const { scale = axes.map(() => 1), translation = axes.map(() => 0) } = dataset;
  for (const [name, list] of Object.entries({ scale, translation })) {
    if (list.length !== ndim) {
      throw new MetadataError(`${where}: ${name} has ${list.length} entries, the array ${ndim} dimensions`);
    }
  }
  if (!SPACE.every((axis) => axes.includes(axis))) return { axes };
  const at = SPACE.map((axis) => axes.indexOf(axis));
  const unit = (i: number) => multiscale.axes?.[i].unit;
  const voxelSize = vec3((a) => toNm(scale[at[a]], unit(at[a])));
  const corner = vec3((a) => omeCorner(toNm(translation[at[a]], unit(at[a])), voxelSize[a]));
  return { axes, voxelSize, corner };
}

/** Numbers per axis in nm, turned to z, y, x. The list has one per space axis, or one per axis of the array. */
function byAxis(
  list: readonly number[],
  space: readonly string[],
  order: readonly string[],
  unit: unknown,
  where: string,
): Vec3 | undefined {
  if (!SPACE.every((axis) => space.includes(axis))) return undefined;
  const axes = list.length === order.length ? order : list.length === 3 ? space : undefined;
  if (!axes)
    throw new MetadataError(`${where} has ${list.length} entries; expected ${order.length}, one per axis`);
  return vec3((a) => {
    const i = axes.indexOf(SPACE[a]);
    let its: unknown = unit ?? "nm";
    if (Array.isArray(unit)) its = unit.length === axes.length ? unit[i] : unit[space.indexOf(SPACE[a])];
    return toNm(list[i], typeof its === "string" ? its : undefined);
  });
}

/**
 * What attributes other than OME's say: `transform`, `pixelResolution`, `resolution`, `voxel_size`, `offset`.
 * `xFirst`: whether lists without axis names follow N5's order of dimensions.
 */
export function legacyPlacement(attributes: Attributes, ndim: number, where: string, xFirst: boolean): Found {
  const named = ["axes", "axis_names", "_ARRAY_DIMENSIONS"]
    .map((member) => attributes[member])
    .find((v) => Array.isArray(v) && v.length === ndim && v.every((n) => typeof n === "string")) as
    | string[]
    | undefined;
  const axes = named ? cleanAxes(xFirst ? [...named].reverse() : named, ndim) : defaultAxes(ndim);
  const order = xFirst ? [...axes].reverse() : axes;
  const isSpace = (axis: string) => (SPACE as readonly string[]).includes(axis);
  const space = order.filter(isSpace);
  const given = named ? axes : undefined;
  if (isObject(attributes.transform)) {
    const own = attributes.transform;
    const names = Array.isArray(own.axes) ? cleanAxes(own.axes, own.axes.length) : order;
    const its = names.filter(isSpace);
    if (own.scale == null) return { axes: given };
    const voxelSize = byAxis(
      sizes(own.scale, `${where}: transform.scale`),
      its,
      names,
      own.units,
      `${where}: transform.scale`,
    );
    const corner =
      own.translate == null
        ? undefined
        : byAxis(
            numbers(own.translate, `${where}: transform.translate`),
            its,
            names,
            own.units,
            `${where}: transform.translate`,
          );
    return { axes: given, voxelSize, corner };
  }
  let voxelSize: Vec3 | undefined;
  const resolution = attributes.pixelResolution;
  if (isObject(resolution) || Array.isArray(resolution)) {
    const list = isObject(resolution) ? resolution.dimensions : resolution;
    const unit = (isObject(resolution) ? resolution.unit : undefined) ?? attributes.units;
    voxelSize = byAxis(
      sizes(list, `${where}: pixelResolution`),
      space,
      order,
      unit,
      `${where}: pixelResolution`,
    );
  } else {
    const name = ["resolution", "voxel_size"].find((member) => Array.isArray(attributes[member]));
    if (name)
      voxelSize = byAxis(
        sizes(attributes[name], `${where}: ${name}`),
        space,
        order,
        attributes.units,
        `${where}: ${name}`,
      );
  }
  const corner = Array.isArray(attributes.offset)
    ? byAxis(
        numbers(attributes.offset, `${where}: offset`),
        space,
        order,
        attributes.units,
        `${where}: offset`,
      )
    : undefined;
  return { axes: given, voxelSize, corner };
}
