/** Every error of the engine. Each says what, where, what was found, what was expected, and what to do. */

/** The root of the tree: whatever the engine refuses or fails at. */
export class ChunkloomError extends Error {
  override readonly name: string = "ChunkloomError";
}

/** An option, a box or an op parameter is not one the engine knows. Raised before any work starts. */
export class OptionError extends ChunkloomError {
  override readonly name = "OptionError";
}

/** A box that holds no voxel of the level. */
export class BoxError extends ChunkloomError {
  override readonly name = "BoxError";
}

/** Nothing readable as a volume is at the place given. */
export class VolumeNotFoundError extends ChunkloomError {
  override readonly name = "VolumeNotFoundError";
}

/** Metadata is there but says something no volume can be made of. */
export class MetadataError extends ChunkloomError {
  override readonly name = "MetadataError";
}

/** An expression uses what expressions may not, or does not parse. */
export class ExpressionError extends OptionError {}

/** A model's file or its shapes do not fit. */
export class ModelError extends ChunkloomError {
  override readonly name = "ModelError";
}

/** More chunks wait than the queue may hold. Asking again later succeeds. */
export class QueueFullError extends ChunkloomError {
  override readonly name = "QueueFullError";
}

/** A materialize would need more memory than its budget, and has no scratch to put partial chunks on. */
export class MemoryBudgetError extends ChunkloomError {
  override readonly name = "MemoryBudgetError";
}

/** The store already at the target is another one. */
export class ConflictError extends ChunkloomError {
  override readonly name = "ConflictError";
}

/** The target did not take a file: a full disk, a permission withdrawn, a server that refused. */
export class WriteError extends ChunkloomError {
  override readonly name = "WriteError";
  readonly key: string;

  constructor(key: string, why: string, options?: ErrorOptions) {
    super(`writing ${key}: ${why}`, options);
    this.key = key;
  }
}

/** One chunk could not be computed. `why` is the reason alone, without the chunk's name. */
export class ChunkError extends ChunkloomError {
  override readonly name = "ChunkError";
  /** `<volume>/<level>/<i.j.k>` */
  readonly chunk: string;
  readonly why: string;

  constructor(chunk: string, why: string, options?: ErrorOptions & { message?: string }) {
    super(options?.message ?? `chunk ${chunk}: ${why}`, options);
    this.chunk = chunk;
    this.why = why;
  }
}

/** The reason of anything thrown, without the name of a chunk that was put in front of it. */
export function reason(thrown: unknown): string {
  if (thrown instanceof ChunkError) return thrown.why;
  if (thrown instanceof Error) return thrown.message;
  return String(thrown);
}
