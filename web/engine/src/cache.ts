/** What is kept of what was computed: byte-bounded, least recently used out first, each value computed once at a time. */

import { onAbort } from "./abort.ts";

/** Values by key within a budget of bytes. A value larger than the budget is not kept. */
export class ByteCache<T> {
  private readonly entries = new Map<string, { readonly value: T; readonly bytes: number }>();
  private used = 0;
  hits = 0;
  misses = 0;
  readonly budget: number;

  constructor(budget: number) {
    this.budget = budget;
  }

  get bytes(): number {
    return this.used;
  }

  get size(): number {
    return this.entries.size;
  }

  has(key: string): boolean {
    return this.entries.has(key);
  }

  get(key: string): T | undefined {
    const entry = this.entries.get(key);
    if (!entry) {
      this.misses += 1;
      return undefined;
    }
    this.hits += 1;
    this.entries.delete(key); // a Map keeps insertion order: the last is the most recently used
    this.entries.set(key, entry);
    return entry.value;
  }

  put(key: string, value: T, bytes: number): void {
    this.remove(key);
    if (bytes > this.budget) return;
    this.entries.set(key, { value, bytes });
    this.used += bytes;
    for (const [oldest, entry] of this.entries) {
      if (this.used <= this.budget) break;
      this.entries.delete(oldest);
      this.used -= entry.bytes;
    }
  }

  remove(key: string): void {
    const entry = this.entries.get(key);
    if (!entry) return;
    this.entries.delete(key);
    this.used -= entry.bytes;
  }

  clear(): void {
    this.entries.clear();
    this.used = 0;
  }
}

interface Shared<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
}

/**
 * Work that several ask for at once, done once. Each may give up by its own signal; the work is given up when the
 * last has. A failure goes to those waiting then; the next to ask tries again.
 */
export class Joined<T> {
  private readonly running = new Map<string, Shared<T>>();

  ask(key: string, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    let job = this.running.get(key);
    if (!job) {
      const controller = new AbortController();
      const promise = work(controller.signal).finally(() => {
        if (this.running.get(key)?.promise === promise) this.running.delete(key);
      });
      promise.catch(() => {}); // those who waited may all have gone
      job = { promise, controller, waiting: 0 };
      this.running.set(key, job);
    }
    const shared = job;
    shared.waiting += 1;
    if (!signal) return shared.promise;
    return new Promise<T>((resolve, reject) => {
      const leave = () => {
        shared.waiting -= 1;
        if (shared.waiting === 0) {
          this.running.delete(key);
          shared.controller.abort(signal.reason);
        }
        reject(signal.reason);
      };
      const forget = onAbort(signal, leave);
      shared.promise.then(resolve, reject).finally(forget);
    });
  }
}
