/**
 * Boxes of voxels and grids in the world. Axes are z, y, x; lengths are nm and real numbers.
 *
 * Inside the engine a grid is placed by its **corner** (the lower corner of voxel 0). OME and Neuroglancer say
 * where the **centre** of voxel 0 is: `omeCorner` and `omeTranslation` are the only two places that add or
 * subtract half a voxel. Knows nothing of volumes or stores.
 */

export type Vec3 = readonly [number, number, number];

/** A half-open box of voxels, `lo` inclusive, `hi` exclusive. */
export interface Box {
  readonly lo: Vec3;
  readonly hi: Vec3;
}

/** Voxel size and corner in nm: voxel i covers `[corner + i * voxelSize, corner + (i + 1) * voxelSize)`. */
export interface Grid {
  readonly voxelSize: Vec3;
  readonly corner: Vec3;
}

/** A new triple, axis by axis. */
export function vec3(of: (axis: number) => number): Vec3 {
  return [of(0), of(1), of(2)];
}

export const AXES = [0, 1, 2] as const;

/** The number of voxels of a shape. */
export function volumeOf(shape: readonly number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

/** The shape of a box, `hi - lo`. */
export function shapeOf(box: Box): Vec3 {
  return vec3((a) => box.hi[a] - box.lo[a]);
}

/** The corner of a grid whose voxel 0 has its centre at `translation`. */
export function omeCorner(translation: number, scale: number): number {
  return tidy(translation - scale / 2, translation, scale);
}

/** The centre of voxel 0 (OME's translation) of a grid with this corner. */
export function omeTranslation(corner: number, scale: number): number {
  return tidy(corner + scale / 2, corner, scale);
}

/**
 * `value`, the sum of `a` and half of `b`, without binary noise: 2.3 - 9.2 / 2 is -2.3, not -2.2999999999999994.
 * Only the last few units of the larger term's precision are touched.
 */
function tidy(value: number, a: number, b: number): number {
  const size = Math.max(Math.abs(a), Math.abs(b), Math.abs(value));
  if (!(size < 1e11)) return value;
  const short = Number(value.toFixed(12 - String(Math.trunc(size)).length)) + 0;
  return Math.abs(short - value) <= 1e-15 * size * 4 ? short : value;
}

/** The corner, in nm, of voxel `lo` of a grid. */
export function cornerAt(grid: Grid, lo: Vec3): Vec3 {
  return vec3((a) => grid.corner[a] + lo[a] * grid.voxelSize[a]);
}

/** Float noise around a whole number, taken off: 9.9999999 is 10. The tolerance is 1e-6 of a voxel. */
export function snap(value: number): number {
  const whole = Math.round(value);
  return Math.abs(value - whole) <= 1e-6 ? whole : value;
}

/** The whole voxels that a box in the world (nm) touches, begin floored and end raised after snapping. */
export function worldToBox(grid: Grid, beginNm: Vec3, endNm: Vec3): Box {
  const at = (nm: Vec3, a: number) => snap((nm[a] - grid.corner[a]) / grid.voxelSize[a]);
  return { lo: vec3((a) => Math.floor(at(beginNm, a))), hi: vec3((a) => Math.ceil(at(endNm, a))) };
}

/** Where a box lies in the world: its lower and upper corner in nm. */
export function boxToWorld(grid: Grid, box: Box): { beginNm: Vec3; endNm: Vec3 } {
  return { beginNm: cornerAt(grid, box.lo), endNm: cornerAt(grid, box.hi) };
}
