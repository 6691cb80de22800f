/** A box as people type it, in voxels or nm, and what a run of it will take, in words. */

import { type Plan, type Vec3, worldToBox } from "@chunkloom/engine";
import type { Shown } from "./messages.ts";

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

/** The box in voxels of a level. */
export function parseBox(
  shown: Shown,
  level: number,
  lo: string,
  hi: string,
  unit: string,
): { lo: Vec3; hi: Vec3 } {
  const grid = shown.levels[level];
  if (!grid) throw new Error(`level ${level}: ${shown.name} has levels 0 to ${shown.levels.length - 1}`);
  const [from, to] = [three(lo, "From"), three(hi, "To")];
  return unit === "nm" ? worldToBox(grid, from, to) : { lo: from, hi: to };
}

/** Bytes as people say them. */
export function size(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log2(bytes) / 10) : 0);
  const value = bytes / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** "214 chunks, 41 MiB, at most 96 MiB of memory". */
export function planInWords(plan: Plan): string {
  const spill = plan.spills ? "; partial chunks wait on disk" : "";
  return (
    `${plan.needed} chunks to compute, ${plan.total} to write, ${size(plan.bytesAtMost)} before compression, ` +
    `at most ${size(plan.peakBytes)} of memory${spill}`
  );
}
