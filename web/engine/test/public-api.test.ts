import { expect, test } from "vitest";
import * as engine from "../src/index.ts";
import * as layout from "../src/layout.ts";
import * as materialize from "../src/materialize.ts";
import * as model from "../src/ops/model.ts";

test("the names that the engine exports", () => {
  expect(Object.keys(engine).sort()).toMatchInlineSnapshot(`
    [
      "BoxError",
      "ByteCache",
      "ChunkError",
      "ChunkloomError",
      "ConflictError",
      "Demand",
      "Engine",
      "Equivalences",
      "ExpressionError",
      "MemoryBudgetError",
      "MetadataError",
      "ModelError",
      "OP_NAMES",
      "OptionError",
      "QueueFullError",
      "TYPED",
      "UNFINISHED",
      "VolumeNotFoundError",
      "WriteError",
      "answer",
      "array2",
      "array3",
      "arrayVolume",
      "asBytes",
      "asRead",
      "asked",
      "boxToWorld",
      "canonicalJson",
      "chunkAnswer",
      "chunkBytes",
      "chunkCounts",
      "chunkIndices",
      "chunkRange",
      "directoryScratch",
      "directoryStore",
      "directoryTarget",
      "formatOf",
      "gunzip",
      "gzip",
      "httpStore",
      "httpTarget",
      "httpUrl",
      "materialize",
      "memoryScratch",
      "memoryStore",
      "memoryTarget",
      "metadataFiles",
      "mostHeld",
      "omeCorner",
      "omeTranslation",
      "openVolume",
      "opfsFolder",
      "opsOf",
      "parseExpression",
      "pipeline",
      "planOf",
      "readBox",
      "readPadded",
      "reason",
      "regionOf",
      "resolveOps",
      "scale",
      "splitAxes",
      "stitcher",
      "translation",
      "voxelBox",
      "walkOrder",
      "worldToBox",
      "writeChunks",
      "zipTarget",
    ]
  `);
});

test("the names that materialize.ts exports", () => {
  expect(Object.keys(materialize).sort()).toMatchInlineSnapshot(`
    [
      "UNFINISHED",
      "chunkBytes",
      "chunkIndices",
      "chunkRange",
      "formatOf",
      "materialize",
      "metadataFiles",
      "mostHeld",
      "planOf",
      "regionOf",
      "splitAxes",
      "stitcher",
      "voxelBox",
      "walkOrder",
      "writeChunks",
    ]
  `);
});

test("the names that layout.ts and the model's entry export", () => {
  expect([Object.keys(layout).sort(), Object.keys(model).sort()]).toMatchInlineSnapshot(`
    [
      [
        "array2",
        "array3",
        "axes",
        "channelNames",
        "multiscales2",
        "ome3",
        "scale",
        "translation",
      ],
      [
        "contextOf",
        "loadModel",
        "modelOp",
        "modelVolume",
        "parseModel",
      ],
    ]
  `);
});
