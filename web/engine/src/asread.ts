/**
 * Values as a reader sees them: which typed array holds which dtype, and bytes viewed as one.
 *
 * Chunks travel as C-order little-endian bytes. A bool is one byte, 0 or 1; a float16 is its 16 bits.
 */

/** The typed array of each dtype. The width of a value is its `BYTES_PER_ELEMENT`. */
export const TYPED = {
  bool: Uint8Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
} as const;

export type Dtype = keyof typeof TYPED;
export type Typed =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** Whether a name is a dtype of the engine. */
export function isDtype(name: string): name is Dtype {
  return Object.hasOwn(TYPED, name);
}

/** Bytes per value. */
export function widthOf(dtype: Dtype): number {
  return TYPED[dtype].BYTES_PER_ELEMENT;
}

/** A typed array of zeros. */
export function zeros(dtype: Dtype, length: number): Typed {
  return new TYPED[dtype](length);
}

/** Little-endian bytes as values; a view where the bytes are aligned, else a copy. */
export function asRead(bytes: Uint8Array, dtype: Dtype): Typed {
  const width = widthOf(dtype);
  const aligned = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return new TYPED[dtype](aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / width);
}

/** The bytes of values, a view. (Every machine that runs JavaScript engines today is little-endian.) */
export function asBytes(values: Typed): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Whether every byte is 0. */
export function isZero(bytes: Uint8Array): boolean {
  const head = Math.min(bytes.length, (8 - (bytes.byteOffset % 8)) % 8);
  const words = Math.floor((bytes.length - head) / 8);
  for (let i = 0; i < head; i++) if (bytes[i] !== 0) return false;
  const view = new Uint32Array(bytes.buffer, bytes.byteOffset + head, words * 2);
  for (let i = 0; i < view.length; i++) if (view[i] !== 0) return false;
  for (let i = head + words * 8; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}

/** The number that 16 bits of a float16 stand for (IEEE 754 binary16). */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
