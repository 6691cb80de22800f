/** The ops by name: from data (a link, a file, a form) to ops that a pipeline runs. */

import { widthOf } from "../asread.ts";
import { OptionError } from "../errors.ts";
import { volumeOf } from "../geometry.ts";
import { type Op, type OpData, workingCopy } from "../op.ts";
import { readBox } from "../read.ts";
import { meanStd, percentiles, sampleBoxes } from "../statistics.ts";
import type { Volume } from "../volume.ts";
import { channelsOp, clip, invert, scaleOp, thresholdOp } from "./arithmetic.ts";
import { cast } from "./cast.ts";
import { gaussian } from "./filters.ts";
import { label } from "./labels.ts";
import { close, dilate, erode, open } from "./morphology.ts";
import { number } from "./parameters.ts";
import {
  channelSelection,
  defaultPostprocessor,
  lambda,
  minMax,
  sigmoid,
  threshold,
  wholeVolumePercentile,
  wholeVolumeStandardizer,
  zScore,
} from "./pointwise.ts";

const MAKERS: Record<string, (data: OpData) => Op> = {
  MinMaxNormalizer: minMax,
  ZScoreNormalizer: zScore,
  LambdaNormalizer: lambda,
  WholeVolumeStandardizer: wholeVolumeStandardizer,
  WholeVolumePercentile: wholeVolumePercentile,
  DefaultPostprocessor: defaultPostprocessor,
  SigmoidPostprocessor: sigmoid,
  ThresholdPostprocessor: threshold,
  LambdaPostprocessor: lambda,
  ChannelSelection: channelSelection,
  cast,
  gaussian,
  dilate,
  erode,
  open,
  close,
  threshold: thresholdOp,
  clip,
  scale: scaleOp,
  invert,
  channels: channelsOp,
  expression: lambda,
  label,
};

/** Every name that an op can have. */
export const OP_NAMES: readonly string[] = Object.keys(MAKERS);

/** The ops that data stands for, in order. Throws `OptionError` naming what does not fit. */
export function opsOf(data: readonly OpData[]): Op[] {
  return data.map((each) => {
    if (!Object.hasOwn(MAKERS, each.name)) {
      throw new OptionError(`op ${JSON.stringify(each.name)} is not known; known are ${OP_NAMES.join(", ")}`);
    }
    return MAKERS[each.name](each);
  });
}

const SAMPLED = ["WholeVolumeStandardizer", "WholeVolumePercentile"];
const isResolved = (op: OpData) =>
  op.name === "WholeVolumeStandardizer"
    ? op.mean != null && op.std != null
    : op.low_value != null && op.high_value != null;

/**
 * Data whose whole-volume statistics are frozen into parameters, each taken from the volume as the ops before it
 * leave it: its coarsest level, or the level that the op names. `made` puts ops on a volume.
 */
export async function resolveOps(
  volume: Volume,
  data: readonly OpData[],
  made: (volume: Volume, ops: readonly Op[]) => Volume,
  signal?: AbortSignal,
): Promise<OpData[]> {
  const done: OpData[] = [];
  for (const op of data) {
    done.push(
      SAMPLED.includes(op.name) && !isResolved(op)
        ? await resolved(made(volume, opsOf(done)), op, signal)
        : op,
    );
  }
  return done;
}

async function resolved(volume: Volume, op: OpData, signal?: AbortSignal): Promise<OpData> {
  const level = op.level == null ? volume.levels.length - 1 : number(op, "level");
  const at = volume.levels[level];
  if (!at)
    throw new OptionError(`${op.name}.level is ${level}; ${volume.name} has ${volume.levels.length} levels`);
  const itemsize = widthOf(volume.dtype) * volumeOf(volume.channels);
  const blocks = [];
  for (const box of sampleBoxes(at.shape, itemsize)) {
    blocks.push(workingCopy(await readBox(volume, level, box, signal)));
  }
  if (op.name === "WholeVolumeStandardizer") {
    const { mean, std } = meanStd(blocks);
    return { ...op, mean: op.mean ?? mean, std: op.std ?? std };
  }
  const { low, high } = percentiles(blocks, number(op, "low_percent", 1), number(op, "high_percent", 99));
  return { ...op, low_value: op.low_value ?? low, high_value: op.high_value ?? high };
}
