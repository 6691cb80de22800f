/**
 * Which chunk next. One claim per request; claims for one chunk join one job. Background jobs come last, then finest
 * level first, then clients in turn, then the job whose earliest waiting claim came first.
 *
 * A bounded number of jobs runs at a time (slots), a bounded number waits. Background work gets at most
 * `max(1, slots - 1)` slots, and with one slot starts only when no client waits. A client that claims a background
 * job promotes it. A job is dropped when its last claim goes. Knows nothing of volumes.
 */

import { onAbort } from "./abort.ts";
import { OptionError, QueueFullError } from "./errors.ts";

export interface ClaimOptions {
  readonly level: number;
  /** Who asks. Absent for background work. */
  readonly client?: string;
  readonly signal?: AbortSignal;
}

/** What a job came to, and whether any client wanted it (what only background work asked for is not kept). */
export interface Outcome<T> {
  readonly value: T;
  readonly byClient: boolean;
}

interface Claim {
  readonly client: string | undefined;
  readonly arrival: number;
  /** Background jobs that had ended when it was made. */
  readonly backgroundBefore: number;
  readonly resolve: (outcome: Outcome<unknown>) => void;
  readonly reject: (thrown: unknown) => void;
  readonly leave: () => void;
}

interface Job {
  readonly key: string;
  /** The finest level that it is wanted for. */
  level: number;
  readonly submitted: number;
  readonly work: (signal: AbortSignal) => Promise<unknown>;
  readonly controller: AbortController;
  readonly claims: Set<Claim>;
  running: boolean;
  byClient: boolean;
}

export interface DemandMetrics {
  readonly waiting: number;
  readonly running: number;
  readonly runningBackground: number;
  readonly done: number;
  readonly failed: number;
  readonly dropped: number;
  readonly joined: number;
  readonly promoted: number;
  readonly seconds: number;
  /** Of the last 64 claims of clients: how many background jobs ended while each waited. */
  readonly waitedFor: readonly number[];
}

const WAITS_KEPT = 64;

export class Demand {
  readonly slots: number;
  readonly queueLimit: number;
  private readonly jobs = new Map<string, Job>();
  private readonly room: (() => void)[] = [];
  /** Clients by when each was last served: the one served longest ago is next. */
  private readonly lastServed = new Map<string, number>();
  private clock = 0;
  private backgroundEnded = 0;
  private waitedFor: number[] = [];
  private count = { done: 0, failed: 0, dropped: 0, joined: 0, promoted: 0, seconds: 0 };

  constructor({ slots = 4, queueLimit = 4096 }: { slots?: number; queueLimit?: number } = {}) {
    for (const [name, n] of Object.entries({ slots, queueLimit })) {
      if (!Number.isInteger(n) || n < 1)
        throw new OptionError(`${name} is ${n}; expected a whole number of 1 or more`);
    }
    this.slots = slots;
    this.queueLimit = queueLimit;
  }

  /**
   * Waits for a chunk. Rejects with the signal's reason when it is aborted, with `QueueFullError` when a client's
   * claim finds the queue full. Background claims wait for room instead.
   */
  async claim<T>(
    key: string,
    options: ClaimOptions,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<Outcome<T>> {
    options.signal?.throwIfAborted();
    while (!this.jobs.has(key) && this.waiting >= this.queueLimit) {
      if (options.client !== undefined) {
        throw new QueueFullError(`${this.waiting} chunks wait already, the most that may; ask again later`);
      }
      await this.roomOr(options.signal);
    }
    return new Promise<Outcome<T>>((resolve, reject) => {
      this.join(key, options, work, resolve as (outcome: Outcome<unknown>) => void, reject);
      this.start();
    });
  }

  /** Waits for a place in the queue, or until the signal is aborted. */
  private roomOr(signal: AbortSignal | undefined): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const mine = () => {
        forget();
        resolve();
      };
      const forget = onAbort(signal, () => {
        const at = this.room.indexOf(mine);
        if (at >= 0) this.room.splice(at, 1);
        reject(signal?.reason);
      });
      this.room.push(mine);
    });
  }

  private join(
    key: string,
    { level, client, signal }: ClaimOptions,
    work: (signal: AbortSignal) => Promise<unknown>,
    resolve: (outcome: Outcome<unknown>) => void,
    reject: (thrown: unknown) => void,
  ): void {
    let job = this.jobs.get(key);
    if (job) {
      this.count.joined += 1;
      job.level = Math.min(job.level, level);
      if (client !== undefined && this.isBackground(job)) this.count.promoted += 1;
    } else {
      job = {
        key,
        level,
        submitted: this.clock++,
        work,
        controller: new AbortController(),
        claims: new Set(),
        running: false,
        byClient: false,
      };
      this.jobs.set(key, job);
    }
    if (client !== undefined) job.byClient = true;
    const mine = job;
    const forget = onAbort(signal, () => {
      this.drop(mine, claim);
      reject(signal?.reason);
    });
    const claim: Claim = {
      client,
      arrival: this.clock++,
      backgroundBefore: this.backgroundEnded,
      resolve,
      reject,
      leave: forget,
    };
    job.claims.add(claim);
  }

  private drop(job: Job, claim: Claim): void {
    job.claims.delete(claim);
    claim.leave();
    if (job.claims.size > 0) return;
    this.count.dropped += 1;
    if (this.jobs.get(job.key) === job) this.jobs.delete(job.key);
    if (job.running) job.controller.abort(new DOMException("nobody waits for it", "AbortError"));
    this.released();
  }

  private isBackground(job: Job): boolean {
    for (const claim of job.claims) if (claim.client !== undefined) return false;
    return true;
  }

  private get waiting(): number {
    let n = 0;
    for (const job of this.jobs.values()) if (!job.running) n += 1;
    return n;
  }

  private readonly active = new Set<Job>();

  private start(): void {
    while (this.active.size < this.slots) {
      const job = this.next();
      if (!job) return;
      this.run(job);
    }
  }

  /** The job to run next, if any may. */
  private next(): Job | undefined {
    let best: { job: Job; rank: readonly number[] } | undefined;
    let background: Job | undefined;
    for (const job of this.jobs.values()) {
      if (job.running) continue;
      if (this.isBackground(job)) {
        if (
          !background ||
          job.level < background.level ||
          (job.level === background.level && job.submitted < background.submitted)
        ) {
          background = job;
        }
        continue;
      }
      const rank = this.rankOf(job);
      if (!best || before(rank, best.rank)) best = { job, rank };
    }
    if (best) return best.job;
    if (!background) return undefined;
    let running = 0;
    for (const job of this.active) if (this.isBackground(job)) running += 1;
    return running < Math.max(1, this.slots - 1) ? background : undefined;
  }

  /** Finest level, then the client served longest ago, then the earliest claim. */
  private rankOf(job: Job): readonly number[] {
    let served = Number.POSITIVE_INFINITY;
    let arrival = Number.POSITIVE_INFINITY;
    for (const claim of job.claims) {
      if (claim.client === undefined) continue;
      served = Math.min(served, this.lastServed.get(claim.client) ?? -1);
      arrival = Math.min(arrival, claim.arrival);
    }
    return [job.level, served, arrival];
  }

  private run(job: Job): void {
    job.running = true;
    this.active.add(job);
    for (const claim of job.claims)
      if (claim.client !== undefined) this.lastServed.set(claim.client, this.clock++);
    const began = performance.now();
    const end = (settle: (claim: Claim) => void) => {
      this.active.delete(job);
      if (this.jobs.get(job.key) === job) this.jobs.delete(job.key);
      this.count.seconds += (performance.now() - began) / 1000;
      if (this.isBackground(job)) this.backgroundEnded += 1;
      for (const { client, backgroundBefore } of job.claims) {
        if (client !== undefined) this.waitedFor.push(this.backgroundEnded - backgroundBefore);
      }
      if (this.waitedFor.length > WAITS_KEPT) this.waitedFor = this.waitedFor.slice(-WAITS_KEPT);
      for (const claim of job.claims) {
        claim.leave();
        settle(claim);
      }
      this.released();
    };
    job.work(job.controller.signal).then(
      (value) => {
        if (job.claims.size > 0) this.count.done += 1;
        end((claim) => claim.resolve({ value, byClient: job.byClient }));
      },
      (thrown: unknown) => {
        if (job.claims.size > 0) this.count.failed += 1;
        end((claim) => claim.reject(thrown));
      },
    );
    this.released();
  }

  /** After a slot or a place in the queue became free. */
  private released(): void {
    if (this.waiting < this.queueLimit) this.room.shift()?.();
    queueMicrotask(() => this.start());
  }

  get metrics(): DemandMetrics {
    let runningBackground = 0;
    for (const job of this.active) if (this.isBackground(job)) runningBackground += 1;
    const { waiting, waitedFor } = this;
    return { waiting, running: this.active.size, runningBackground, ...this.count, waitedFor };
  }
}

function before(a: readonly number[], b: readonly number[]): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i];
  return false;
}
