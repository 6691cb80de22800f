/**
 * Expressions in `x`, one voxel at a time, safe to take from a link: parsed to a tree of listed parts and walked
 * by our own evaluator. The grammar is Python's, and NumPy's rules say which number type each part has.
 *
 * What looks at more than one voxel (sums, means, indices, shapes) is refused: a chunk does not hold the volume.
 */

import { ExpressionError } from "./errors.ts";
import { type Gives, ONE, OPERATORS, TWO } from "./expression_functions.ts";
import { type Node, parseTree, type Type } from "./expression_grammar.ts";

type Values = { readonly type: Type; readonly data: Float64Array };
/** Python's own numbers take the type of the array they meet. */
type Scalar = { readonly scalar: number; readonly whole: boolean };
type Value = Values | Scalar;

export interface Expression {
  readonly text: string;
  /** The value at each voxel, float32. `x` is not written to. */
  evaluate(x: Float32Array): Float32Array;
}

/** Parses an expression. Throws `ExpressionError` with the part that is not allowed. */
export function parseExpression(text: string): Expression {
  try {
    const tree = parseTree(text);
    return { text, evaluate: (x) => evaluate(tree, x) };
  } catch (thrown) {
    if (thrown instanceof ExpressionError) {
      throw new ExpressionError(`expression ${JSON.stringify(text.slice(0, 80))}: ${thrown.message}`);
    }
    throw thrown;
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

function made(type: Type, kind: Gives): Type {
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
