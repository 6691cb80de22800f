/** The public API. `test/public-api.test.ts` pins it. */

export { asBytes, asRead, type Dtype, TYPED, type Typed } from "./asread.ts";
export { ByteCache } from "./cache.ts";
export { type ClaimOptions, Demand, type DemandMetrics } from "./demand.ts";
export { Engine, type EngineMetrics, type EngineOptions } from "./engine.ts";
export * from "./errors.ts";
export { parseExpression } from "./expression.ts";
export { type Compression, gunzip, gzip } from "./formats/codec.ts";
export type { FormatWord } from "./formats/format.ts";
export { canonicalJson } from "./formats/json.ts";
export {
  type Box,
  boxToWorld,
  type Grid,
  omeCorner,
  omeTranslation,
  type Vec3,
  worldToBox,
} from "./geometry.ts";
export { array2, array3, type Dataset, scale, translation } from "./layout.ts";
export * from "./materialize.ts";
export { Equivalences } from "./merge.ts";
export type { Op, OpData } from "./op.ts";
export { OP_NAMES, opsOf, resolveOps } from "./ops/registry.ts";
export { pipeline } from "./pipeline.ts";
export { pyramid, takesPyramid } from "./pyramid.ts";
export { type Block, type Boundary, readBox, readPadded } from "./read.ts";
export { type Answer, type Asked, answer, asked, chunkAnswer } from "./serve.ts";
export { arrayVolume } from "./sources/array.ts";
export { type OpenOptions, openVolume } from "./sources/open.ts";
export { directoryStore, httpStore, httpUrl, memoryStore, type ReadStore } from "./sources/store.ts";
export { memoryScratch, type Scratch } from "./spill.ts";
export { directoryScratch, directoryTarget, opfsFolder } from "./targets/directory.ts";
export { httpTarget } from "./targets/http.ts";
export { memoryTarget } from "./targets/memory.ts";
export type { Target } from "./targets/target.ts";
export { zipTarget } from "./targets/zip.ts";
export { chunkCounts, type Kind, type Level, type Volume, type VolumeInfo } from "./volume.ts";
