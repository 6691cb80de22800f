/** What a materialize will do, said before it starts: chunks, bytes, and the most memory it takes. */

import { MemoryBudgetError } from "./errors.ts";
import { AXES, volumeOf } from "./geometry.ts";
import { arrayChunks, chunkBytes, mostHeld, type Region, splitAxes } from "./region.ts";

/** The most memory a materialize takes unless told: 1 GiB. */
export const MEMORY_BUDGET = 2 ** 30;

export interface Plan {
  /** Served chunks to compute. */
  readonly needed: number;
  /** Chunks of the array to write (fewer when empty ones are skipped). */
  readonly total: number;
  /** Bytes of the array's chunks, before compression. */
  readonly bytesAtMost: number;
  /** Chunks of the array held at most while they wait for their last part, and their bytes. */
  readonly held: number;
  readonly heldBytes: number;
  /** Bytes of chunks on their way: being computed, encoded, written. */
  readonly inFlightBytes: number;
  /** Memory at most, within the budget. */
  readonly peakBytes: number;
  /** Whether partial chunks wait on scratch, and the memory that is left for those that do not. */
  readonly spills: boolean;
  readonly partialBytes: number;
  /** Served chunks asked for at a time: as asked, or fewer to keep to the budget. */
  readonly concurrency: number;
}

/** A served chunk, the chunk it completes, and that one encoded. */
const CHUNKS_IN_FLIGHT = 3;

/**
 * The plan of a region. `concurrency` served chunks are asked for at a time; out of turn, each beyond the first can
 * hold up to a chunk per split axis combination more.
 *
 * Throws `MemoryBudgetError` where not even one chunk at a time fits.
 */
export function planOf(
  region: Region,
  { concurrency = 4, memoryBudget = MEMORY_BUDGET }: { concurrency?: number; memoryBudget?: number } = {},
): Plan {
  const size = chunkBytes(region);
  const needed = volumeOf(AXES.map((a) => region.served.hi[a] - region.served.lo[a]));
  const total = volumeOf(arrayChunks(region));
  const perServed = 2 ** splitAxes(region).length;
  const heldWith = (lanes: number) =>
    splitAxes(region).length === 0 ? 0 : Math.min(total, mostHeld(region) + (lanes - 1) * perServed);
  const inFlight = (lanes: number) => lanes * CHUNKS_IN_FLIGHT * size;

  let lanes = Math.max(1, Math.min(concurrency, needed));
  const spills = heldWith(lanes) * size + inFlight(lanes) > memoryBudget;
  while (lanes > 1 && inFlight(lanes) + size > memoryBudget) lanes -= 1;
  const held = heldWith(lanes);
  const least = inFlight(1) + (held > 0 ? size : 0);
  if (least > memoryBudget) {
    throw new MemoryBudgetError(
      `materialize ${region.volume.name}: the memory budget is ${memoryBudget} bytes; one chunk at a time takes ` +
        `${least} (chunks are ${size} bytes); give at least that, or a volume with smaller chunks`,
    );
  }
  const heldBytes = held * size;
  const peak = heldBytes + inFlight(lanes);
  return {
    needed,
    total,
    bytesAtMost: total * size,
    held,
    heldBytes,
    inFlightBytes: inFlight(lanes),
    peakBytes: spills ? Math.min(peak, memoryBudget) : peak,
    spills: spills && held > 0,
    partialBytes: Math.max(0, memoryBudget - inFlight(lanes)),
    concurrency: lanes,
  };
}
