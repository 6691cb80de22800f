/**
 * An ONNX model as an op, run by onnxruntime-web: one forward per chunk, which is the model's output tile, with the
 * context that `model.json` says. The same file describes the model to the Python engine.
 */

import type { Dtype } from "../asread.ts";
import { ModelError } from "../errors.ts";
import { AXES, type Vec3, vec3, volumeOf } from "../geometry.ts";
import { type Op, type OpData, withData, workingCopy } from "../op.ts";
import { kept, pipeline, type StageCache } from "../pipeline.ts";
import type { Volume, VolumeInfo } from "../volume.ts";
import { opsOf, resolveOps } from "./registry.ts";

/** What `model.json` says, checked. Shapes in voxels, z, y, x. */
export interface ModelDescription {
  readonly name: string;
  readonly weights: string;
  readonly inputVoxelSize: Vec3;
  readonly outputVoxelSize: Vec3;
  readonly inputShape: Vec3;
  readonly outputShape: Vec3;
  readonly inputChannels: number;
  readonly channels: readonly string[];
  readonly inputNorm: readonly OpData[];
  readonly postprocess: readonly OpData[];
}

const FORMAT = "chunkloom-model/1";

/** Reads `model.json`. Throws `ModelError` naming the member that does not fit. */
export function parseModel(json: unknown, where = "model.json"): ModelDescription {
  const bad = (member: string, found: unknown, expected: string): never => {
    throw new ModelError(`${where}: ${member} is ${JSON.stringify(found)}; expected ${expected}`);
  };
  if (typeof json !== "object" || json === null || Array.isArray(json))
    return bad("the file", json, "a JSON object");
  const given = json as { [member: string]: unknown };
  if (given.format !== FORMAT) bad("format", given.format, JSON.stringify(FORMAT));
  const triple = (member: string, whole: boolean): Vec3 => {
    const value = given[member];
    const fits = (n: unknown) =>
      typeof n === "number" && n > 0 && (whole ? Number.isInteger(n) : Number.isFinite(n));
    if (Array.isArray(value) && value.length === 3 && value.every(fits)) return value as unknown as Vec3;
    return bad(member, value, `three ${whole ? "whole numbers of voxels" : "numbers of nm"} (z, y, x)`);
  };
  const text = (member: string): string => {
    const value = given[member];
    return typeof value === "string" && value ? value : bad(member, value, "text");
  };
  const steps = (member: "input_norm" | "postprocess"): OpData[] => {
    const chain = (given.chain ?? {}) as { [member: string]: unknown };
    const value = chain[member] ?? [];
    const fits =
      Array.isArray(value) && value.every((s) => typeof s === "object" && typeof s?.name === "string");
    return fits ? (value as OpData[]) : bad(`chain.${member}`, value, "a list of steps with a name each");
  };
  const channels = given.channels;
  if (!Array.isArray(channels) || channels.length === 0) bad("channels", channels, "a list of names");
  const description: ModelDescription = {
    name: text("name"),
    weights: text("weights"),
    inputVoxelSize: triple("input_voxel_size_nm", false),
    outputVoxelSize: triple("output_voxel_size_nm", false),
    inputShape: triple("input_shape", true),
    outputShape: triple("output_shape", true),
    inputChannels: (given.input_channels as number | undefined) ?? 1,
    channels: (channels as unknown[]).map(String),
    inputNorm: steps("input_norm"),
    postprocess: steps("postprocess"),
  };
  if (!AXES.every((a) => same(description.inputVoxelSize[a], description.outputVoxelSize[a]))) {
    bad(
      "output_voxel_size_nm",
      given.output_voxel_size_nm,
      "the input's: a model that changes it runs in Python only",
    );
  }
  AXES.forEach((a) => {
    const context = description.inputShape[a] - description.outputShape[a];
    if (context < 0 || context % 2 !== 0) {
      bad(
        "output_shape",
        given.output_shape,
        "at most the input's, by an even number of voxels less along each axis",
      );
    }
  });
  return description;
}

const same = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * Math.max(a, b);

/** Voxels of context on each side. */
export function contextOf(description: ModelDescription): Vec3 {
  return vec3((a) => (description.inputShape[a] - description.outputShape[a]) / 2);
}

/** What this module uses of onnxruntime-web; a page may pass the build it bundles. */
export interface OrtModule {
  readonly env: { wasm: { numThreads?: number; wasmPaths?: unknown } };
  readonly InferenceSession: {
    create(model: Uint8Array, options?: object): Promise<OrtSession>;
  };
  readonly Tensor: new (type: "float32", data: Float32Array, dims: readonly number[]) => OrtTensor;
}

export interface OrtSession {
  readonly inputNames: readonly string[];
  /** Sizes that the model leaves open are text. */
  readonly inputMetadata?: readonly {
    readonly isTensor: boolean;
    readonly shape?: readonly (number | string)[];
  }[];
  readonly outputNames: readonly string[];
  run(feeds: { [name: string]: OrtTensor }): Promise<{ [name: string]: OrtTensor }>;
  release(): Promise<void>;
}

export interface OrtTensor {
  readonly data: unknown;
  readonly dims: readonly number[];
  dispose?(): void;
}

/** A loaded model. One forward runs at a time. */
export interface Model {
  readonly description: ModelDescription;
  /** What of its weights and settings decides the values: part of every digest. */
  readonly version: string;
  /** Input `[inputChannels, ...inputShape]`, output `[channels, ...outputShape]`, C order, float32. */
  run(input: Float32Array, signal?: AbortSignal): Promise<Float32Array>;
  release(): Promise<void>;
}

/**
 * Loads the weights of a model. `providers` are onnxruntime's ("wasm", "webgpu"), tried in turn. Threads need a
 * page that is cross-origin isolated; elsewhere there is one.
 */
export async function loadModel(
  description: ModelDescription,
  weights: Uint8Array,
  {
    ort,
    providers = ["wasm"],
    threads,
  }: { ort?: OrtModule; providers?: readonly string[]; threads?: number } = {},
): Promise<Model> {
  const runtime = ort ?? ((await import("onnxruntime-web")) as unknown as OrtModule);
  if (threads !== undefined) runtime.env.wasm.numThreads = threads;
  let session: OrtSession;
  try {
    session = await runtime.InferenceSession.create(weights, { executionProviders: providers });
  } catch (thrown) {
    throw new ModelError(
      `${description.weights}: not a model that can be run here: ${(thrown as Error).message ?? thrown}`,
      { cause: thrown },
    );
  }
  if (session.inputNames.length !== 1) {
    throw new ModelError(`${description.weights}: has inputs ${session.inputNames.join(", ")}; expected one`);
  }
  const dims = [1, description.inputChannels, ...description.inputShape];
  const declared = session.inputMetadata?.[0]?.shape ?? [];
  if (declared.some((n, i) => typeof n === "number" && n > 0 && n !== dims[i])) {
    throw new ModelError(
      `${description.weights}: takes an input of ${declared.join(" x ")}; model.json says ${dims.join(" x ")} ` +
        `(batch, channels, z, y, x)`,
    );
  }
  const wanted = description.channels.length * volumeOf(description.outputShape);
  let turn: Promise<unknown> = Promise.resolve();

  async function forward(input: Float32Array, signal?: AbortSignal): Promise<Float32Array> {
    signal?.throwIfAborted();
    const tensor = new runtime.Tensor("float32", input, dims);
    let output: OrtTensor;
    try {
      output = (await session.run({ [session.inputNames[0]]: tensor }))[session.outputNames[0]];
    } catch (thrown) {
      const why = (thrown as Error).message ?? String(thrown);
      throw new ModelError(`${description.name}: does not run on an input of ${dims.join(" x ")}: ${why}`, {
        cause: thrown,
      });
    }
    const { data } = output;
    if (!(data instanceof Float32Array) || data.length !== wanted) {
      throw new ModelError(
        `${description.name}: gives ${output.dims.join(" x ")} for an input of ${dims.join(" x ")}; model.json says ` +
          `${description.channels.length} channels of ${description.outputShape.join(" x ")} float32`,
      );
    }
    return data;
  }

  const hash = await crypto.subtle.digest("SHA-256", weights as Uint8Array<ArrayBuffer>);
  const version = Array.from(new Uint8Array(hash).slice(0, 8), (b) => b.toString(16).padStart(2, "0")).join(
    "",
  );
  return {
    description,
    version,
    run(input, signal) {
      const mine = turn.then(() => forward(input, signal));
      turn = mine.catch(() => {});
      return mine;
    },
    release: () => session.release(),
  };
}

/** The model alone as an op: float32 in, one channel axis out. Outside the volume stands 0, after the normalizers. */
export function modelOp(model: Model): Op {
  const { description } = model;
  const context = contextOf(description);
  const dtype: Dtype = "float32";
  return {
    data: { name: "model", model: description.name, version: model.version, shape: description.inputShape },
    chunk: description.outputShape,
    levels: "fine",
    dear: true,
    boundary: "zero",
    halo: () => context,
    outcome(input) {
      const count = volumeOf(input.channels);
      if (count !== description.inputChannels) {
        throw new ModelError(
          `${description.name}: takes ${description.inputChannels} channels, ${input.name} has ${count}; select the right ones`,
        );
      }
      return { dtype, channels: [description.channels.length], kind: "image" };
    },
    async apply(block, place) {
      const working = workingCopy(block);
      const input = working instanceof Float32Array ? working : new Float32Array(working);
      const output = await model.run(input, place.signal);
      return withData(
        { ...block, shape: description.outputShape, channels: [description.channels.length] },
        dtype,
        output,
      );
    },
  };
}

const fits = (size: Vec3, wanted: Vec3) => AXES.every((a) => same(size[a], wanted[a]));

/**
 * The level that a model of some voxel size reads: an equal one, else the last before the first that is coarser along
 * any axis (the finest if that is the first). The Python engine's "floor".
 */
export function levelFor(volume: VolumeInfo, wanted: Vec3): number {
  const equal = volume.levels.findIndex(({ voxelSize }) => fits(voxelSize, wanted));
  if (equal >= 0) return equal;
  const coarser = volume.levels.findIndex(({ voxelSize }) =>
    AXES.some((a) => voxelSize[a] > wanted[a] * (1 + 1e-6)),
  );
  return coarser < 0 ? volume.levels.length - 1 : Math.max(0, coarser - 1);
}

/** One level of a volume, as a volume. */
function oneLevel(volume: Volume, level: number): Volume {
  if (volume.levels.length === 1) return volume;
  return {
    ...volume,
    digest: `${volume.digest}.${level}`,
    levels: [volume.levels[level]],
    fine: undefined,
    chunk: (_, index, signal) => volume.chunk(level, index, signal),
  };
}

/** The steps before and after a model. */
export interface Chain {
  readonly input_norm: readonly OpData[];
  readonly postprocess: readonly OpData[];
}

/**
 * The volume a model makes of another: the level of the model's voxel size, the chain's normalizers, the model, the
 * chain's postprocessors. `chain` stands in for the one in `model.json`.
 */
export async function modelVolume(
  source: Volume,
  model: Model,
  {
    name = model.description.name,
    cache,
    chain = { input_norm: model.description.inputNorm, postprocess: model.description.postprocess },
    signal,
  }: {
    name?: string;
    cache?: StageCache;
    chain?: Chain;
    signal?: AbortSignal;
  } = {},
): Promise<Volume> {
  const wanted = model.description.inputVoxelSize;
  const level = levelFor(source, wanted);
  const { voxelSize } = source.levels[level];
  const notes = fits(voxelSize, wanted)
    ? source.notes
    : [
        ...(source.notes ?? []),
        `model ${model.description.name} was made for voxels of ${wanted.join(", ")} nm; the level read has ` +
          `${voxelSize.join(", ")} nm (z, y, x) and is read voxel for voxel`,
      ];
  const below = { ...kept(oneLevel(source, level), cache), notes };
  const make = (volume: Volume, list: readonly Op[]) => pipeline(volume, list, name, cache);
  const norm = opsOf(await resolveOps(below, chain.input_norm, make, signal));
  return make(below, [...norm, modelOp(model), ...opsOf(chain.postprocess)]);
}
