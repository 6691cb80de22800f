/**
 * The second pass of an op whose chunks are not final by themselves: labels that continue in the next chunk. The
 * first pass looks at the faces of every chunk and finds which ids are one object; the second gives each object its
 * smallest id. Every chunk is computed in both: nothing but faces is kept between them.
 */

import { asBytes, asRead } from "./asread.ts";
import { AXES, type Vec3, vec3, volumeOf } from "./geometry.ts";
import type { Produce } from "./materialize.ts";
import { Equivalences } from "./merge.ts";
import { chunkIndices, type Region } from "./region.ts";

/** One outermost plane of a chunk of ids, channels first: side 0 is the lower end of the axis. */
function plane(ids: BigUint64Array, planes: number, chunk: Vec3, axis: number, side: 0 | 1): BigUint64Array {
  const shape = vec3((a) => (a === axis ? 1 : chunk[a]));
  const at = side === 0 ? 0 : chunk[axis] - 1;
  const out = new BigUint64Array(planes * volumeOf(shape));
  let i = 0;
  for (let p = 0; p < planes; p++) {
    for (let z = 0; z < shape[0]; z++) {
      for (let y = 0; y < shape[1]; y++) {
        for (let x = 0; x < shape[2]; x++) {
          const [sz, sy, sx] = [axis === 0 ? at : z, axis === 1 ? at : y, axis === 2 ? at : x];
          out[i++] = ids[((p * chunk[0] + sz) * chunk[1] + sy) * chunk[2] + sx];
        }
      }
    }
  }
  return out;
}

/**
 * Which ids of a region's served chunks are one object: those that lie face to face. `channels` apart, each plane of
 * a channel axis being labelled by itself.
 */
export async function equivalencesOf(
  region: Region,
  produce: Produce,
  { concurrency, signal, onChunk }: { concurrency: number; signal?: AbortSignal; onChunk?: () => void },
): Promise<Equivalences[]> {
  const planes = volumeOf(region.volume.channels);
  const found = Array.from({ length: planes }, () => new Equivalences());
  const faces = new Map<string, BigUint64Array | null>();
  const inside = new AbortController();
  const either = signal ? AbortSignal.any([signal, inside.signal]) : inside.signal;
  const walk = chunkIndices(region.served.lo, region.served.hi);

  /** Joins a face with its neighbour's, which came before, or leaves it for the neighbour. */
  const meet = (index: Vec3, axis: number, side: 0 | 1, ids: BigUint64Array | null) => {
    const low = vec3((a) => index[a] - (a === axis && side === 0 ? 1 : 0));
    if (low[axis] < region.served.lo[axis] || low[axis] + 1 >= region.served.hi[axis]) return;
    const key = `${axis}/${low.join()}`;
    const mine = ids ? plane(ids, planes, region.chunk, axis, side) : null;
    if (!faces.has(key)) {
      faces.set(key, mine);
      return;
    }
    const other = faces.get(key);
    faces.delete(key);
    if (!mine || !other) return;
    const size = mine.length / planes;
    found.forEach((equivalences, p) => {
      equivalences.touch(mine.subarray(p * size, (p + 1) * size), other.subarray(p * size, (p + 1) * size));
    });
  };

  const lane = async () => {
    for (let next = walk.next(); !next.done; next = walk.next()) {
      either.throwIfAborted();
      const bytes = await produce(next.value, either);
      const ids = bytes ? (asRead(bytes, "uint64") as BigUint64Array) : null;
      for (const axis of AXES) for (const side of [0, 1] as const) meet(next.value, axis, side, ids);
      onChunk?.();
    }
  };
  try {
    await Promise.all(Array.from({ length: concurrency }, lane));
  } catch (thrown) {
    inside.abort(thrown);
    throw thrown;
  }
  return found;
}

/** Chunks whose ids stand for whole objects. */
export function relabelled(region: Region, produce: Produce, equivalences: readonly Equivalences[]): Produce {
  return async (index, signal) => {
    const bytes = await produce(index, signal);
    if (!bytes) return null;
    const ids = (asRead(bytes, "uint64") as BigUint64Array).slice(); // the chunk may sit in a cache
    const size = volumeOf(region.chunk);
    equivalences.forEach((each, p) => {
      each.relabel(ids.subarray(p * size, (p + 1) * size));
    });
    return asBytes(ids);
  };
}
