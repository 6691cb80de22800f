/** Objects across chunk faces: which ids are one, by union-find, and the relabelling that follows. */

/** Sets of ids that are one. The smallest id of a set stands for it. 64-bit ids stay exact. */
export class Equivalences {
  private readonly parent = new Map<bigint, bigint>();

  /** The id that stands for this one. */
  find(id: bigint): bigint {
    let root = id;
    for (let up = this.parent.get(root); up !== undefined; up = this.parent.get(root)) root = up;
    for (let at = id; at !== root; ) {
      const up = this.parent.get(at)!;
      this.parent.set(at, root);
      at = up;
    }
    return root;
  }

  /** Makes two ids one. */
  union(a: bigint, b: bigint): void {
    const [x, y] = [this.find(a), this.find(b)];
    if (x !== y) this.parent.set(x < y ? y : x, x < y ? x : y);
  }

  /** How many ids are not the one that stands for them. */
  get size(): number {
    return this.parent.size;
  }

  /** Unites the ids that lie face to face in two planes of the same shape (0 is no object). */
  touch(a: BigUint64Array, b: BigUint64Array): void {
    for (let i = 0; i < a.length; i++) if (a[i] !== 0n && b[i] !== 0n) this.union(a[i], b[i]);
  }

  /** Every id replaced by the one that stands for it, in place. */
  relabel(ids: BigUint64Array): void {
    let [last, its] = [0n, 0n];
    for (let i = 0; i < ids.length; i++) {
      if (ids[i] === 0n) continue;
      if (ids[i] !== last) [last, its] = [ids[i], this.find(ids[i])];
      ids[i] = its;
    }
  }
}
