/** A box as people type it, in voxels or nm, and what a run of it will take, in words. */

import { type Box, boxToWorld, type Plan, type Vec3, worldToBox } from "@chunkloom/engine";
import type { Shown } from "./messages.ts";
import { tidy } from "./page.ts";

function three(text: string, what: string): Vec3 {
  const numbers = text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  if (numbers.length !== 3 || numbers.some((n) => !Number.isFinite(n))) {
    throw new Error(`${what}: "${text}"; expected three numbers, z, y, x`);
  }
  return numbers as unknown as Vec3;
}

/** The grid of a level, or an error that says which there are. */
export function gridOf(shown: Shown, level: number): Shown["levels"][number] {
  const grid = shown.levels[level];
  if (grid) return grid;
  const last = shown.levels.length - 1;
  throw new Error(`level ${level}: ${shown.name} has ${last > 0 ? `levels 0 to ${last}` : "level 0 alone"}`);
}

/** The box in voxels of a level. */
export function parseBox(shown: Shown, level: number, lo: string, hi: string, unit: string): Box {
  const grid = gridOf(shown, level);
  const [from, to] = [three(lo, "From"), three(hi, "To")];
  return unit === "nm" ? worldToBox(grid, from, to) : { lo: from, hi: to };
}

/** A box of nm in voxels of a level, those that it touches and that the level has. */
export function boxFromNm(shown: Shown, level: number, lo: Vec3, hi: Vec3): Box {
  const grid = gridOf(shown, level);
  const box = worldToBox(grid, lo, hi);
  const clip = (n: number, a: number) => Math.max(0, Math.min(grid.shape[a], n));
  return { lo: box.lo.map(clip) as unknown as Vec3, hi: box.hi.map(clip) as unknown as Vec3 };
}

/** A box of voxels in another unit, as text. */
export function typed(shown: Shown, level: number, box: Box, unit: string): { lo: string; hi: string } {
  const { beginNm, endNm } = boxToWorld(gridOf(shown, level), box);
  const [lo, hi] = unit === "nm" ? [beginNm, endNm] : [box.lo, box.hi];
  return { lo: lo.map(tidy).join(", "), hi: hi.map(tidy).join(", ") };
}

/** Bytes as people say them. */
export function size(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0);
  const value = bytes / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** "1 chunk", "2 chunks". */
export const counted = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** "214 chunks, 41 MiB, at most 96 MiB of memory". */
export function planInWords(plan: Plan): string {
  const spill = plan.spills ? "; partial chunks wait on disk" : "";
  return (
    `${counted(plan.needed, "chunk")} to compute, ${plan.total} to write, ${size(plan.bytesAtMost)} before compression, ` +
    `at most ${size(plan.peakBytes)} of memory${spill}`
  );
}
