/**
 * Expressions in `x`, one voxel at a time, safe to take from a link: parsed to a tree of listed parts and walked
 * by our own evaluator. The grammar is Python's, and NumPy's rules say which number type each part has.
 *
 * What looks at more than one voxel (sums, means, indices, shapes) is refused: a chunk does not hold the volume.
 */

import { ExpressionError } from "./errors.ts";

/** A number type: bool, whole (int64), float32, float64. */
type Type = "b" | "i" | "f" | "d";
type Values = { readonly type: Type; readonly data: Float64Array };
/** Python's own numbers take the type of the array they meet. */
type Scalar = { readonly scalar: number; readonly whole: boolean };
type Value = Values | Scalar;

type Node =
  | { readonly kind: "x" }
  | { readonly kind: "number"; readonly value: number; readonly whole: boolean }
  | { readonly kind: "unary"; readonly op: string; readonly of: Node }
  | { readonly kind: "binary"; readonly op: string; readonly left: Node; readonly right: Node }
  | { readonly kind: "compare"; readonly ops: readonly string[]; readonly parts: readonly Node[] }
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Node[] }
  | { readonly kind: "astype"; readonly of: Node; readonly type: Type };

export interface Expression {
  readonly text: string;
  /** The value at each voxel, float32. `x` is not written to. */
  evaluate(x: Float32Array): Float32Array;
}

const MAX_LENGTH = 500;
const MAX_DEPTH = 60;
const MAX_EXPONENT = 64;
const CONSTANTS: Record<string, number> = {
  e: Math.E,
  pi: Math.PI,
  inf: Number.POSITIVE_INFINITY,
  nan: Number.NaN,
};
const CASTS: Record<string, Type> = {
  bool: "b",
  bool_: "b",
  float32: "f",
  float64: "d",
  float: "d",
  int64: "i",
  int: "i",
};

const rint = (v: number) => {
  const r = Math.round(v);
  return Math.abs(v % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
};
const floorMod = (a: number, b: number) => (b === 0 ? Number.NaN : a - Math.floor(a / b) * b);

/** Functions of one array: the function, and the type of its result (`same`, `float` = at least float32, or bool). */
const ONE: Record<string, readonly [(v: number) => number, "same" | "float" | "b"]> = {
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

const TWO: Record<string, readonly [(a: number, b: number) => number, "same" | "float" | "b"]> = {
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
const OPERATORS: Record<string, string> = {
  "+": "add",
  "-": "subtract",
  "*": "multiply",
  "/": "divide",
  "//": "floor_divide",
  "%": "mod",
  "**": "power",
};
const REFUSED = new Set(
  "all any amax amin max mean median min ptp std sum var full_like ones_like zeros_like squeeze shape ndim dtype".split(
    " ",
  ),
);

/** Parses an expression. Throws `ExpressionError` with the part that is not allowed. */
export function parseExpression(text: string): Expression {
  try {
    if (text.length > MAX_LENGTH)
      throw new ExpressionError(`it has ${text.length} characters, at most ${MAX_LENGTH}`);
    const tree = new Parser(tokens(text)).parse();
    return { text, evaluate: (x) => evaluate(tree, x) };
  } catch (thrown) {
    if (thrown instanceof ExpressionError) {
      throw new ExpressionError(`expression ${JSON.stringify(text.slice(0, 80))}: ${thrown.message}`);
    }
    throw thrown;
  }
}

interface Token {
  readonly text: string;
  readonly kind: "number" | "name" | "text" | "symbol" | "end";
}

const TOKEN =
  /\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(["'])(\w*)\3|(\*\*|\/\/|<=|>=|==|!=|<<|>>|[-+*/%<>&|^~().,=]))/y;

function tokens(text: string): Token[] {
  const found: Token[] = [];
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match)
      throw new ExpressionError(`${JSON.stringify(text.slice(at).trim().slice(0, 12))} is not allowed here`);
    const [, number, name, quote, word, symbol] = match;
    if (number !== undefined) found.push({ text: number, kind: "number" });
    else if (name !== undefined) found.push({ text: name, kind: "name" });
    else if (quote !== undefined) found.push({ text: word, kind: "text" });
    else found.push({ text: symbol, kind: "symbol" });
  }
  found.push({ text: "the end", kind: "end" });
  return found;
}

/** A recursive descent over Python's precedences. */
class Parser {
  private at = 0;
  private depth = 0;
  private readonly tokens: readonly Token[];

  constructor(list: readonly Token[]) {
    this.tokens = list;
  }

  parse(): Node {
    const tree = this.compare();
    if (this.peek.kind === "name") throw this.unexpected();
    if (this.peek.kind !== "end") throw this.unexpected();
    return tree;
  }

  private get peek(): Token {
    return this.tokens[this.at];
  }

  private unexpected(): ExpressionError {
    const { text, kind } = this.peek;
    const logic = ["and", "or", "not", "if", "else"].includes(text) && kind === "name";
    if (logic)
      return new ExpressionError(`${text} is not allowed here; use np.logical_and, np.where and the like`);
    return new ExpressionError(
      kind === "end" ? "it ends too early" : `${JSON.stringify(text)} is not expected here`,
    );
  }

  private take(...symbols: string[]): string | undefined {
    const token = this.peek;
    if (token.kind !== "symbol" || !symbols.includes(token.text)) return undefined;
    this.at += 1;
    return token.text;
  }

  private expect(symbol: string): void {
    if (!this.take(symbol)) throw this.unexpected();
  }

  private compare(): Node {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new ExpressionError(`it is nested more than ${MAX_DEPTH} levels deep`);
    const parts = [this.binary(0)];
    const ops: string[] = [];
    for (
      let op = this.take("<", "<=", ">", ">=", "==", "!=");
      op;
      op = this.take("<", "<=", ">", ">=", "==", "!=")
    ) {
      ops.push(op);
      parts.push(this.binary(0));
    }
    this.depth -= 1;
    return ops.length ? { kind: "compare", ops, parts } : parts[0];
  }

  private static readonly LEVELS = [["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "//", "%"]];

  private binary(level: number): Node {
    if (level === Parser.LEVELS.length) return this.unary();
    let left = this.binary(level + 1);
    for (let op = this.take(...Parser.LEVELS[level]); op; op = this.take(...Parser.LEVELS[level])) {
      if (op === "<<" || op === ">>")
        throw new ExpressionError(`${op} is not allowed; multiply by a power of two`);
      left = { kind: "binary", op, left, right: this.binary(level + 1) };
    }
    return left;
  }

  private unary(): Node {
    const op = this.take("-", "+", "~");
    if (!op) return this.power();
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new ExpressionError(`it is nested more than ${MAX_DEPTH} levels deep`);
    const node: Node = { kind: "unary", op, of: this.unary() };
    this.depth -= 1;
    return node;
  }

  private power(): Node {
    const base = this.postfix();
    if (!this.take("**")) return base;
    const exponent = this.unary();
    const literal = exponent.kind === "unary" && exponent.op !== "~" ? exponent.of : exponent;
    if (literal.kind !== "number" || literal.value > MAX_EXPONENT) {
      throw new ExpressionError(`an exponent must be a plain number of at most ${MAX_EXPONENT}`);
    }
    return { kind: "binary", op: "**", left: base, right: exponent };
  }

  private postfix(): Node {
    let node = this.atom();
    while (this.take(".")) {
      const name = this.name();
      if (name === "clip") node = { kind: "call", name: "clip", args: [node, ...this.args(name, 2, 2)] };
      else if (name === "round")
        node = { kind: "call", name: "round", args: [node, ...this.args(name, 0, 0)] };
      else if (name === "astype") node = { kind: "astype", of: node, type: this.type() };
      else throw this.refused(`.${name}`, name);
    }
    return node;
  }

  private atom(): Node {
    const token = this.peek;
    if (this.take("(")) {
      const inside = this.compare();
      this.expect(")");
      return inside;
    }
    if (token.kind === "number") {
      this.at += 1;
      return { kind: "number", value: Number(token.text), whole: /^\d+$/.test(token.text) };
    }
    if (token.kind !== "name") throw this.unexpected();
    if (["and", "or", "not", "if", "else"].includes(token.text)) throw this.unexpected();
    this.at += 1;
    if (token.text === "x") return { kind: "x" };
    if (token.text === "abs") return { kind: "call", name: "abs", args: this.args("abs", 1, 1) };
    if (token.text !== "np")
      throw new ExpressionError(`the name ${token.text} is not allowed; the data is called x`);
    this.expect(".");
    const name = this.name();
    if (Object.hasOwn(CONSTANTS, name)) return { kind: "number", value: CONSTANTS[name], whole: false };
    if (Object.hasOwn(ONE, name)) return { kind: "call", name, args: this.args(name, 1, 1) };
    if (Object.hasOwn(TWO, name) && name !== "power")
      return { kind: "call", name, args: this.args(name, 2, 2) };
    if (name === "clip" || name === "where") return { kind: "call", name, args: this.args(name, 3, 3) };
    if (Object.hasOwn(CASTS, name))
      return { kind: "astype", of: this.args(name, 1, 1)[0], type: CASTS[name] };
    throw this.refused(`np.${name}`, name);
  }

  private refused(shown: string, name: string): ExpressionError {
    if (REFUSED.has(name)) {
      return new ExpressionError(
        `${shown} looks at more than one voxel, which a chunk cannot; it is not allowed here`,
      );
    }
    return new ExpressionError(`${shown} is not allowed`);
  }

  private name(): string {
    const token = this.peek;
    if (token.kind !== "name") throw this.unexpected();
    this.at += 1;
    return token.text;
  }

  private args(name: string, least: number, most: number): Node[] {
    this.expect("(");
    const args: Node[] = [];
    if (!this.take(")")) {
      do args.push(this.compare());
      while (this.take(","));
      this.expect(")");
    }
    if (args.length < least || args.length > most) {
      throw new ExpressionError(
        `${name}(…) takes ${most} argument${most === 1 ? "" : "s"} here, got ${args.length}`,
      );
    }
    return args;
  }

  private type(): Type {
    this.expect("(");
    const token = this.peek;
    let name = token.text;
    this.at += 1;
    if (token.kind === "name" && name === "np") {
      this.expect(".");
      name = this.name();
    } else if (token.kind !== "text") throw this.unexpected();
    this.expect(")");
    if (!Object.hasOwn(CASTS, name))
      throw new ExpressionError(`${name} is not a number type that is allowed here`);
    return CASTS[name];
  }
}

const isScalar = (value: Value): value is Scalar => "scalar" in value;
const RANK: Record<Type, number> = { b: 0, i: 1, f: 2, d: 3 };

/** The type two operands meet in, as NumPy 2 has it. */
function meet(a: Value, b: Value): Type {
  if (isScalar(a) && isScalar(b)) return a.whole && b.whole ? "i" : "d";
  if (isScalar(a)) return meet(b, a);
  if (isScalar(b)) {
    if (a.type === "f" || a.type === "d") return a.type;
    return b.whole ? "i" : "d";
  }
  const [low, high] = RANK[a.type] < RANK[b.type] ? [a.type, b.type] : [b.type, a.type];
  return low === "i" && high === "f" ? "d" : high;
}

function made(type: Type, kind: "same" | "float" | "b"): Type {
  if (kind === "b") return "b";
  if (kind === "same") return type;
  return type === "f" ? "f" : "d";
}

const rounded = (type: Type) => (type === "f" ? Math.fround : (v: number) => v);

function apply1(of: Value, [f, kind]: (typeof ONE)[string]): Value {
  if (isScalar(of)) return { scalar: f(of.scalar), whole: of.whole && kind === "same" };
  const type = made(of.type, kind);
  const round = rounded(type);
  return { type, data: of.data.map((v) => round(f(v))) };
}

function apply2(a: Value, b: Value, [f, kind]: (typeof TWO)[string]): Value {
  const both = meet(a, b);
  if (isScalar(a) && isScalar(b))
    return { scalar: f(a.scalar, b.scalar), whole: kind === "same" && a.whole && b.whole };
  const type = made(both, kind);
  // NumPy rounds a Python number to float32 before it meets a float32 array.
  const at = both === "f" ? Math.fround : (v: number) => v;
  const length = isScalar(a) ? (b as Values).data.length : a.data.length;
  const round = rounded(type);
  const data = new Float64Array(length);
  const [left, right] = [isScalar(a) ? at(a.scalar) : 0, isScalar(b) ? at(b.scalar) : 0];
  for (let i = 0; i < length; i++) {
    data[i] = round(f(isScalar(a) ? left : a.data[i], isScalar(b) ? right : b.data[i]));
  }
  // Sums and products of bools are bools in NumPy: or, and.
  if (type === "b" && kind === "same") for (let i = 0; i < length; i++) data[i] = data[i] === 0 ? 0 : 1;
  return { type, data };
}

function where(condition: Value, a: Value, b: Value): Value {
  const type = meet(a, b);
  const pick = (value: Value, i: number) => (isScalar(value) ? value.scalar : value.data[i]);
  if (isScalar(condition)) return condition.scalar !== 0 ? a : b;
  const round = rounded(type);
  return { type, data: condition.data.map((c, i) => round(c !== 0 ? pick(a, i) : pick(b, i))) };
}

function value(node: Node, x: Values): Value {
  switch (node.kind) {
    case "x":
      return x;
    case "number":
      return { scalar: node.value, whole: node.whole };
    case "unary": {
      const of = value(node.of, x);
      if (node.op === "+") return of;
      if (node.op === "-") return apply1(of, ONE.negative);
      const type = isScalar(of) ? "i" : of.type;
      if (type === "b") return apply1(of, ONE.logical_not);
      if (type === "i") return apply1(of, [(v) => ~v, "same"]);
      throw new ExpressionError("~ is for bools and whole numbers; the data is float32");
    }
    case "binary": {
      const [left, right] = [value(node.left, x), value(node.right, x)];
      if ("&|^".includes(node.op)) {
        const type = meet(left, right);
        if (type === "f" || type === "d") {
          throw new ExpressionError(
            `${node.op} is for bools and whole numbers; the data is float32: compare first`,
          );
        }
        return apply2(left, right, TWO[node.op]);
      }
      return apply2(left, right, TWO[OPERATORS[node.op]]);
    }
    case "compare": {
      const parts = node.parts.map((part) => value(part, x));
      if (node.ops.length > 1) {
        throw new ExpressionError("comparisons of arrays cannot be chained; use (a < x) & (x < b)");
      }
      return apply2(parts[0], parts[1], TWO[node.ops[0]]);
    }
    case "astype": {
      const of = value(node.of, x);
      const data = isScalar(of) ? x.data.map(() => of.scalar) : of.data;
      if (node.type === "b") return { type: "b", data: data.map((v) => (v !== 0 ? 1 : 0)) };
      if (node.type === "i")
        return { type: "i", data: data.map((v) => (Number.isFinite(v) ? Math.trunc(v) : 0)) };
      return { type: node.type, data: data.map(rounded(node.type)) };
    }
    case "call": {
      const args = node.args.map((arg) => value(arg, x));
      if (node.name === "where") return where(args[0], args[1], args[2]);
      if (node.name === "clip") return apply2(apply2(args[0], args[1], TWO.maximum), args[2], TWO.minimum);
      if (args.length === 1) return apply1(args[0], ONE[node.name]);
      return apply2(args[0], args[1], TWO[node.name]);
    }
  }
}

function evaluate(tree: Node, x: Float32Array): Float32Array {
  const result = value(tree, { type: "f", data: Float64Array.from(x) });
  if (isScalar(result)) {
    throw new ExpressionError("it does not hold x: the result would be one number, not one per voxel");
  }
  return Float32Array.from(result.data);
}
