/**
 * Canonical JSON: the same bytes from Python and TypeScript. Numbers as ECMAScript prints them, members in the
 * order given, two spaces, a final newline. What a user adds has its members sorted by UTF-16 code units.
 */

import { OptionError } from "../errors.ts";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [member: string]: Json }
  | Members;

/** An object whose members keep their order, whatever their names (ECMAScript puts index-like names first). */
export class Members {
  readonly entries: readonly (readonly [string, Json])[];

  constructor(entries: readonly (readonly [string, Json])[]) {
    this.entries = entries;
  }
}

/** The text of a value, with its final newline. */
export function canonicalJson(value: Json): string {
  return `${text(value, "")}\n`;
}

function text(value: Json, indent: string): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((v) => deeper + text(v, deeper)).join(",\n")}\n${indent}]`;
  }
  const entries = value instanceof Members ? value.entries : Object.entries(value as { [m: string]: Json });
  if (entries.length === 0) return "{}";
  const lines = entries.map(([name, v]) => `${deeper}${JSON.stringify(name)}: ${text(v, deeper)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}

/** A user's value with every object's members sorted. Refuses what JSON cannot hold, saying where it is. */
export function sorted(value: unknown, at = "attributes"): Json {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") {
    if (Number.isFinite(value)) return value;
    throw new OptionError(`${at} is ${value}, which JSON cannot hold; write it as a string`);
  }
  if (Array.isArray(value)) return value.map((v, i) => sorted(v, `${at}[${i}]`));
  if (typeof value === "object") {
    const names = Object.keys(value).sort(); // Array.sort compares UTF-16 code units
    return new Members(
      names.map(
        (name) => [name, sorted((value as { [m: string]: unknown })[name], `${at}.${name}`)] as const,
      ),
    );
  }
  throw new OptionError(`${at} is a ${typeof value}, which JSON cannot hold`);
}
