/** Parameters of ops as they arrive (numbers, or text from a form or URL), read and checked by name. */

import { OptionError } from "../errors.ts";
import type { OpData } from "../op.ts";

/** Refuses parameters that the op does not have. */
export function only(data: OpData, known: readonly string[]): void {
  for (const name of Object.keys(data)) {
    if (name !== "name" && !known.includes(name)) {
      const has = known.length ? `has ${known.join(", ")}` : "has none";
      throw new OptionError(`${data.name}: no parameter ${name}; it ${has}`);
    }
  }
}

/** A finite number. */
export function number(data: OpData, name: string, otherwise?: number): number {
  const value = data[name] ?? otherwise;
  const parsed = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof parsed !== "number" || !Number.isFinite(parsed)) {
    throw new OptionError(`${data.name}.${name} is ${JSON.stringify(value)}; expected a number`);
  }
  return parsed;
}

/** True or false; "True" and "False" as text too. */
export function boolean(data: OpData, name: string, otherwise: boolean): boolean {
  const value = data[name] ?? otherwise;
  if (typeof value === "boolean") return value;
  if (typeof value === "string" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true";
  throw new OptionError(`${data.name}.${name} is ${JSON.stringify(value)}; expected true or false`);
}

/** Text that is not empty. */
export function text(data: OpData, name: string): string {
  const value = data[name];
  if (typeof value !== "string" || value.trim() === "") {
    throw new OptionError(`${data.name}.${name} is ${JSON.stringify(value)}; expected text`);
  }
  return value;
}
