/** Many who listen for one signal's abort, with one listener on the signal. */

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `then` when the signal is aborted; returns what takes it off again. */
export function onAbort(signal: AbortSignal | undefined, then: () => void): () => void {
  if (!signal) return () => {};
  let set = listeners.get(signal);
  if (!set) {
    const all = new Set<() => void>();
    set = all;
    listeners.set(signal, all);
    signal.addEventListener(
      "abort",
      () => {
        for (const each of [...all]) each();
      },
      { once: true },
    );
  }
  const mine = set;
  mine.add(then);
  return () => mine.delete(then);
}
