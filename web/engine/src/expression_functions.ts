/** The functions that an expression may call, one voxel at a time, and the number type of what they give. */

/** `same` as the operands, `float` (at least float32), or bool. */
export type Gives = "same" | "float" | "b";

const rint = (v: number) => {
  const r = Math.round(v);
  return Math.abs(v % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
};
const floorMod = (a: number, b: number) => (b === 0 ? Number.NaN : a - Math.floor(a / b) * b);

/** Functions of one array: the function, and the type of its result (`same`, `float` = at least float32, or bool). */
export const ONE: Record<string, readonly [(v: number) => number, Gives]> = {
  abs: [Math.abs, "same"],
  absolute: [Math.abs, "same"],
  fabs: [Math.abs, "float"],
  negative: [(v) => -v, "same"],
  positive: [(v) => v, "same"],
  sign: [Math.sign, "same"],
  square: [(v) => v * v, "same"],
  reciprocal: [(v) => 1 / v, "float"],
  ceil: [Math.ceil, "same"],
  floor: [Math.floor, "same"],
  trunc: [Math.trunc, "same"],
  rint: [rint, "float"],
  round: [rint, "same"],
  sqrt: [Math.sqrt, "float"],
  cbrt: [Math.cbrt, "float"],
  exp: [Math.exp, "float"],
  exp2: [(v) => 2 ** v, "float"],
  expm1: [Math.expm1, "float"],
  log: [Math.log, "float"],
  log10: [Math.log10, "float"],
  log1p: [Math.log1p, "float"],
  log2: [Math.log2, "float"],
  sin: [Math.sin, "float"],
  cos: [Math.cos, "float"],
  tan: [Math.tan, "float"],
  arcsin: [Math.asin, "float"],
  arccos: [Math.acos, "float"],
  arctan: [Math.atan, "float"],
  sinh: [Math.sinh, "float"],
  cosh: [Math.cosh, "float"],
  tanh: [Math.tanh, "float"],
  deg2rad: [(v) => (v * Math.PI) / 180, "float"],
  radians: [(v) => (v * Math.PI) / 180, "float"],
  rad2deg: [(v) => (v * 180) / Math.PI, "float"],
  degrees: [(v) => (v * 180) / Math.PI, "float"],
  isfinite: [(v) => Number(Number.isFinite(v)), "b"],
  isinf: [(v) => Number(Math.abs(v) === Number.POSITIVE_INFINITY), "b"],
  isnan: [(v) => Number(Number.isNaN(v)), "b"],
  logical_not: [(v) => Number(v === 0), "b"],
  nan_to_num: [
    (v) => (Number.isNaN(v) ? 0 : Math.max(-3.4028234663852886e38, Math.min(3.4028234663852886e38, v))),
    "same",
  ],
};

export const TWO: Record<string, readonly [(a: number, b: number) => number, Gives]> = {
  add: [(a, b) => a + b, "same"],
  subtract: [(a, b) => a - b, "same"],
  multiply: [(a, b) => a * b, "same"],
  divide: [(a, b) => a / b, "float"],
  true_divide: [(a, b) => a / b, "float"],
  floor_divide: [(a, b) => Math.floor(a / b), "same"],
  mod: [floorMod, "same"],
  remainder: [floorMod, "same"],
  fmod: [(a, b) => a % b, "same"],
  power: [(a, b) => a ** b, "same"],
  maximum: [(a, b) => Math.max(a, b), "same"],
  minimum: [(a, b) => Math.min(a, b), "same"],
  fmax: [(a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b)), "same"],
  fmin: [(a, b) => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b)), "same"],
  arctan2: [Math.atan2, "float"],
  hypot: [Math.hypot, "float"],
  logical_and: [(a, b) => Number(a !== 0 && b !== 0), "b"],
  logical_or: [(a, b) => Number(a !== 0 || b !== 0), "b"],
  logical_xor: [(a, b) => Number((a !== 0) !== (b !== 0)), "b"],
  "<": [(a, b) => Number(a < b), "b"],
  "<=": [(a, b) => Number(a <= b), "b"],
  ">": [(a, b) => Number(a > b), "b"],
  ">=": [(a, b) => Number(a >= b), "b"],
  "==": [(a, b) => Number(a === b), "b"],
  "!=": [(a, b) => Number(a !== b), "b"],
  "&": [(a, b) => a & b, "same"],
  "|": [(a, b) => a | b, "same"],
  "^": [(a, b) => a ^ b, "same"],
};
export const OPERATORS: Record<string, string> = {
  "+": "add",
  "-": "subtract",
  "*": "multiply",
  "/": "divide",
  "//": "floor_divide",
  "%": "mod",
  "**": "power",
};
