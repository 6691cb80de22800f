import { describe, expect, test } from "vitest";
import { Demand } from "../src/index.ts";

/** Work that waits to be let go, and says when it began. */
function bench() {
  const began: string[] = [];
  const ends = new Map<string, (value?: string, thrown?: Error) => void>();
  const signals = new Map<string, AbortSignal>();
  const work = (key: string) => (signal: AbortSignal) => {
    began.push(key);
    signals.set(key, signal);
    return new Promise<string>((resolve, reject) => {
      ends.set(key, (value = key, thrown) => (thrown ? reject(thrown) : resolve(value)));
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  };
  const turn = () => new Promise((resolve) => setTimeout(resolve, 0));
  const end = async (key: string) => {
    ends.get(key)!();
    await turn();
  };
  return { began, ends, signals, work, end, turn };
}

describe("slots", () => {
  test("as many jobs run as there are slots", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 2 });
    for (const key of ["a", "b", "c"]) demand.claim(key, { level: 0, client: "p" }, work(key));
    await end("a");
    expect(began).toEqual(["a", "b", "c"]);
    expect(demand.metrics).toMatchObject({ running: 2, waiting: 0, done: 1 });
  });

  test("background work leaves one slot to clients", async () => {
    const { began, work, turn } = bench();
    const demand = new Demand({ slots: 3 });
    for (const key of ["a", "b", "c"]) demand.claim(key, { level: 0 }, work(key));
    await turn();
    expect(began).toEqual(["a", "b"]);
    demand.claim("p", { level: 3, client: "p" }, work("p"));
    await turn();
    expect(began).toEqual(["a", "b", "p"]);
    expect(demand.metrics).toMatchObject({ running: 3, runningBackground: 2, waiting: 1 });
  });

  test("with one slot background work starts only when no client waits", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 1 });
    demand.claim("first", { level: 0, client: "p" }, work("first"));
    demand.claim("background", { level: 0 }, work("background"));
    demand.claim("second", { level: 5, client: "p" }, work("second"));
    await end("first");
    await end("second");
    expect(began).toEqual(["first", "second", "background"]);
  });
});

describe("order", () => {
  test("finest level first, then the earliest claim; background in submission order", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 1 });
    demand.claim("busy", { level: 0, client: "p" }, work("busy"));
    demand.claim("b1", { level: 0 }, work("b1"));
    demand.claim("b2", { level: 0 }, work("b2"));
    demand.claim("coarse", { level: 2, client: "p" }, work("coarse"));
    demand.claim("fine1", { level: 0, client: "p" }, work("fine1"));
    demand.claim("fine2", { level: 0, client: "p" }, work("fine2"));
    for (const key of ["busy", "fine1", "fine2", "coarse", "b1", "b2"]) await end(key);
    expect(began).toEqual(["busy", "fine1", "fine2", "coarse", "b1", "b2"]);
  });

  test("clients take turns within a level", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 1 });
    for (const key of ["a1", "a2", "a3"]) demand.claim(key, { level: 0, client: "a" }, work(key));
    demand.claim("b1", { level: 0, client: "b" }, work("b1"));
    for (const key of ["a1", "b1", "a2", "a3"]) await end(key);
    expect(began).toEqual(["a1", "b1", "a2", "a3"]);
  });
});

describe("claims", () => {
  test("claims for one chunk join one job", async () => {
    const { began, work, end } = bench();
    const demand = new Demand();
    const all = Array.from({ length: 8 }, (_, i) =>
      demand.claim("a", { level: 0, client: `p${i}` }, work("a")),
    );
    await end("a");
    expect((await Promise.all(all)).map((o) => o.value)).toEqual(Array(8).fill("a"));
    expect(began).toEqual(["a"]);
    expect(demand.metrics.joined).toBe(7);
  });

  test("a client promotes a queued background job", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 1 });
    demand.claim("busy", { level: 0, client: "p" }, work("busy"));
    const background = demand.claim("b1", { level: 0 }, work("b1"));
    const wanted = demand.claim("b2", { level: 0 }, work("b2"));
    demand.claim("b2", { level: 0, client: "p" }, work("b2"));
    for (const key of ["busy", "b2", "b1"]) await end(key);
    expect(began).toEqual(["busy", "b2", "b1"]);
    expect(await wanted).toEqual({ value: "b2", byClient: true });
    expect(await background).toEqual({ value: "b1", byClient: false });
    expect(demand.metrics.promoted).toBe(1);
  });

  test("a waiting job is dropped when its last claim goes", async () => {
    const { began, work, end } = bench();
    const demand = new Demand({ slots: 1 });
    demand.claim("busy", { level: 0, client: "p" }, work("busy"));
    const [one, two] = [new AbortController(), new AbortController()];
    const first = demand.claim("a", { level: 0, client: "p", signal: one.signal }, work("a"));
    const second = demand.claim("a", { level: 0, client: "q", signal: two.signal }, work("a"));
    one.abort();
    await expect(first).rejects.toMatchObject({ name: "AbortError" });
    expect(demand.metrics).toMatchObject({ waiting: 1, dropped: 0 });
    two.abort();
    await expect(second).rejects.toMatchObject({ name: "AbortError" });
    await end("busy");
    expect(began).toEqual(["busy"]);
    expect(demand.metrics).toMatchObject({ waiting: 0, dropped: 1 });
  });

  test("a running job is stopped when its last claim goes, and its slot is free", async () => {
    const { began, work, turn, signals } = bench();
    const demand = new Demand({ slots: 1 });
    const controller = new AbortController();
    const gone = demand.claim("a", { level: 0, client: "p", signal: controller.signal }, work("a"));
    demand.claim("b", { level: 0, client: "p" }, work("b"));
    await turn();
    controller.abort();
    await expect(gone).rejects.toMatchObject({ name: "AbortError" });
    await turn();
    expect(signals.get("a")!.aborted).toBe(true);
    expect(began).toEqual(["a", "b"]);
  });

  test("a failure goes to those waiting; the next claim tries again", async () => {
    const { began, work, ends, turn, end } = bench();
    const demand = new Demand();
    const first = demand.claim("a", { level: 0, client: "p" }, work("a"));
    const second = demand.claim("a", { level: 0 }, work("a"));
    await turn();
    ends.get("a")!("", new Error("bad"));
    await expect(first).rejects.toThrow("bad");
    await expect(second).rejects.toThrow("bad");
    const third = demand.claim("a", { level: 0, client: "p" }, work("a"));
    await turn();
    await end("a");
    expect((await third).value).toBe("a");
    expect(began).toEqual(["a", "a"]);
  });
});

describe("the queue is bounded", () => {
  test("a client is told to ask again; background work waits for room", async () => {
    const { began, work, end, turn } = bench();
    const demand = new Demand({ slots: 1, queueLimit: 1 });
    demand.claim("a", { level: 0, client: "p" }, work("a"));
    demand.claim("b", { level: 0, client: "p" }, work("b"));
    await expect(demand.claim("c", { level: 0, client: "p" }, work("c"))).rejects.toThrow(
      /1 chunks wait already/,
    );
    const background = demand.claim("d", { level: 0 }, work("d"));
    await turn();
    expect(demand.metrics.waiting).toBe(1);
    for (const key of ["a", "b", "d"]) await end(key);
    expect((await background).value).toBe("d");
    expect(began).toEqual(["a", "b", "d"]);
  });

  test("background work that waits for room gives up with its signal", async () => {
    const { work, turn } = bench();
    const demand = new Demand({ slots: 1, queueLimit: 1 });
    demand.claim("a", { level: 0, client: "p" }, work("a"));
    demand.claim("b", { level: 0, client: "p" }, work("b"));
    const controller = new AbortController();
    const background = demand.claim("d", { level: 0, signal: controller.signal }, work("d"));
    await turn();
    controller.abort();
    await expect(background).rejects.toMatchObject({ name: "AbortError" });
  });

  test("limits that are none are refused", () => {
    expect(() => new Demand({ slots: 0 })).toThrow(/slots is 0/);
  });
});
