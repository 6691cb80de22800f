/** A short name for data: equal data, equal name; other data, in all likelihood another (64 bits, FNV-1a). */

import { canonicalJson, sorted } from "./formats/json.ts";

/** The digest of any JSON value, 16 hexadecimal digits. The order of an object's members does not count. */
export function digestOf(value: unknown): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(canonicalJson(sorted(value, "digest")))) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
  return hash.toString(16).padStart(16, "0");
}
