/**
 * Connected components, six neighbours. Ids are unique in the volume: to the ids 1, 2, … of a chunk (C order of
 * first voxels) is added its Morton index times the voxels of a chunk. `merge.ts` then says which ids of
 * neighbouring chunks are one object.
 */

import { volumeOf } from "../geometry.ts";
import { type Op, type OpData, withData } from "../op.ts";
import { only } from "./parameters.ts";

/** Ids 1, 2, … of the objects of a mask, in the C order of their first voxels, six neighbours. */
export function components(
  mask: ArrayLike<number | bigint>,
  shape: readonly [number, number, number],
): Uint32Array {
  const [, ny, nx] = shape;
  const ids = new Uint32Array(volumeOf(shape));
  const parent: number[] = [0];
  const find = (id: number) => {
    let root = id;
    while (parent[root] !== root) root = parent[root];
    while (parent[id] !== root) [parent[id], id] = [root, parent[id]];
    return root;
  };
  for (let i = 0; i < ids.length; i++) {
    if (!mask[i]) continue; // NaN is background
    const x = i % nx;
    const y = Math.floor(i / nx) % ny;
    const beside = [x > 0 ? ids[i - 1] : 0, y > 0 ? ids[i - nx] : 0, i >= nx * ny ? ids[i - nx * ny] : 0];
    let id = 0;
    for (const other of beside) {
      if (!other) continue;
      const root = find(other);
      if (!id) id = root;
      else if (root !== id) {
        const [low, high] = root < id ? [root, id] : [id, root];
        parent[high] = low;
        id = low;
      }
    }
    if (!id) {
      id = parent.length;
      parent.push(id);
    }
    ids[i] = id;
  }
  const final = new Uint32Array(parent.length);
  let count = 0;
  for (let id = 1; id < parent.length; id++) final[id] = find(id) === id ? ++count : final[find(id)];
  for (let i = 0; i < ids.length; i++) ids[i] = final[ids[i]];
  return ids;
}

/** Bits of a chunk index interleaved (Morton, 1966), the first axis in the lowest bit. */
export function mortonIndex(index: readonly number[]): bigint {
  let code = 0n;
  index.forEach((value, axis) => {
    for (let bit = 0; 2 ** bit <= value; bit++) {
      if (Math.floor(value / 2 ** bit) % 2 === 1) code |= 1n << BigInt(bit * index.length + axis);
    }
  });
  return code;
}

/**
 * The op: `{name: "label"}`. Every value but 0 is foreground; channels are taken one by one, each with ids
 * of its own. The result is uint64.
 */
export function label(data: OpData): Op {
  only(data, []);
  return {
    data,
    levels: "fine",
    merges: true,
    boundary: "zero",
    halo: () => [0, 0, 0],
    outcome: (input) => ({ dtype: "uint64", channels: input.channels, kind: "labels" }),
    apply(block, place) {
      const plane = volumeOf(block.shape);
      const planes = volumeOf(block.channels);
      const out = new BigUint64Array(plane * planes);
      const offset = mortonIndex(place.index) * BigInt(place.chunkVoxels);
      for (let p = 0; p < planes; p++) {
        const ids = components(block.data.subarray(p * plane, (p + 1) * plane), block.shape);
        for (let i = 0; i < plane; i++) if (ids[i]) out[p * plane + i] = offset + BigInt(ids[i]);
      }
      return withData(block, "uint64", out);
    },
  };
}
