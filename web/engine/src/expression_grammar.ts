/** What an expression may say: from text to a tree of listed parts. Looks at syntax only; `expression.ts` runs it. */

import { ExpressionError } from "./errors.ts";
import { ONE, TWO } from "./expression_functions.ts";

/** A number type: bool, whole (int64), float32, float64. */
export type Type = "b" | "i" | "f" | "d";

export type Node =
  | { readonly kind: "x" }
  | { readonly kind: "number"; readonly value: number; readonly whole: boolean }
  | { readonly kind: "unary"; readonly op: string; readonly of: Node }
  | { readonly kind: "binary"; readonly op: string; readonly left: Node; readonly right: Node }
  | { readonly kind: "compare"; readonly ops: readonly string[]; readonly parts: readonly Node[] }
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Node[] }
  | { readonly kind: "astype"; readonly of: Node; readonly type: Type };

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

const REFUSED = new Set(
  "all any amax amin max mean median min ptp std sum var full_like ones_like zeros_like squeeze shape ndim dtype".split(
    " ",
  ),
);

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

/** The tree of a text. Throws `ExpressionError` with the part that is not allowed. */
export function parseTree(text: string): Node {
  if (text.length > MAX_LENGTH)
    throw new ExpressionError(`it has ${text.length} characters, at most ${MAX_LENGTH}`);
  return new Parser(tokens(text)).parse();
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
