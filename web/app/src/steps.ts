/** The steps of a chain as a form shows them: their parameters, with ranges for sliders. What they do is the engine's. */

import type { OpData } from "@chunkloom/engine";

export type Field =
  | {
      readonly kind: "number";
      readonly name: string;
      readonly start: number;
      readonly range: readonly [number, number];
      readonly step: number;
    }
  | { readonly kind: "text"; readonly name: string; readonly start: string }
  | { readonly kind: "flag"; readonly name: string; readonly start: boolean }
  | {
      readonly kind: "choice";
      readonly name: string;
      readonly start: string;
      readonly choices: readonly string[];
    };

const number = (name: string, start: number, low: number, high: number, step: number): Field => ({
  kind: "number",
  name,
  start,
  range: [low, high],
  step,
});
const DTYPES = [
  "uint8",
  "int8",
  "uint16",
  "int16",
  "uint32",
  "int32",
  "uint64",
  "int64",
  "float32",
  "float64",
  "bool",
];
const cube = [number("size", 3, 1, 15, 2)];

export const FIELDS: { readonly [step: string]: readonly Field[] } = {
  MinMaxNormalizer: [
    number("min_value", 0, 0, 255, 1),
    number("max_value", 255, 0, 255, 1),
    { kind: "flag", name: "invert", start: false },
  ],
  ZScoreNormalizer: [number("mean", 128, 0, 255, 0.5), number("std", 32, 0.5, 128, 0.5)],
  LambdaNormalizer: [{ kind: "text", name: "expression", start: "x*2-1" }],
  WholeVolumeStandardizer: [],
  WholeVolumePercentile: [number("low_percent", 1, 0, 50, 0.5), number("high_percent", 99, 50, 100, 0.5)],
  SigmoidPostprocessor: [],
  ThresholdPostprocessor: [number("threshold", 0.5, 0, 1, 0.01)],
  DefaultPostprocessor: [
    number("clip_min", -1, -10, 10, 0.1),
    number("clip_max", 1, -10, 10, 0.1),
    number("bias", 1, -10, 10, 0.1),
    number("multiplier", 127.5, 0, 255, 0.5),
  ],
  LambdaPostprocessor: [{ kind: "text", name: "expression", start: "x" }],
  ChannelSelection: [{ kind: "text", name: "channels", start: "0" }],
  gaussian: [number("sigma", 1, 0, 8, 0.1)],
  threshold: [number("low", 128, 0, 255, 1)],
  clip: [number("low", 0, 0, 255, 1), number("high", 255, 0, 255, 1)],
  scale: [number("factor", 1, -4, 4, 0.05), number("offset", 0, -255, 255, 1)],
  invert: [],
  dilate: cube,
  erode: cube,
  open: cube,
  close: cube,
  cast: [{ kind: "choice", name: "dtype", start: "uint8", choices: DTYPES }],
  expression: [{ kind: "text", name: "expression", start: "x" }],
  channels: [{ kind: "text", name: "channels", start: "0" }],
  label: [],
};

/** A step with the values a form starts with. */
export function newStep(name: string): OpData {
  return { name, ...Object.fromEntries((FIELDS[name] ?? []).map((field) => [field.name, field.start])) };
}
