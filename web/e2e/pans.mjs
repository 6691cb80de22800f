/**
 * Panning while a run goes on: how many background jobs a new view's chunk waits for. The page's computed volume is
 * one of a model; the viewer's way to a chunk is taken, through the service worker.
 */

const PANS = 50;

/** Starts a run of all of the computed volume, asks for 50 chunks far apart one after the other, cancels the run. */
export async function pans(page) {
  return page.evaluate(async (count) => {
    const { client, now } = window.chunkloom;
    const { name, viewed, levels } = now.computed;
    const [{ shape, chunk }] = levels;
    const base = await window.chunkloom.base;
    const models = async () => (await client.call("metrics")).models;
    const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    // What the viewer itself shows is there.
    do await pause(200);
    while ((await models()).running > 0);
    const run = { volume: name, level: 0, lo: [0, 0, 0], hi: shape };
    const options = { format: "zarr3", compression: "none", extent: "box" };
    const running = client.call(
      "materialize",
      99,
      { ...run, ...options },
      { kind: "opfs", path: "pans.zarr" },
    );
    let over = false;
    running
      .catch(() => {})
      .finally(() => {
        over = true;
      });
    while ((await models()).runningBackground < 1) await pause(5);
    const grid = shape.map((n, a) => Math.ceil(n / chunk[a]));
    /** The i-th chunk of every second column, from the last row, where the run comes last. */
    const indexOf = (i, odd) => {
      const columns = Math.floor(grid[2] / 2);
      return [grid[0] - 1, grid[1] - 1 - Math.floor(i / columns), 2 * (i % columns) + odd];
    };
    const ask = async (index) => {
      const key = [...now.computed.channels.map(() => 0), ...index].join("/");
      const answer = await fetch(`${base}/${viewed}/zarr2/s0/${key}`);
      if (!answer.ok) throw new Error(`a chunk was answered ${answer.status}`);
      await answer.arrayBuffer();
    };
    const ms = [];
    const waited = [];
    for (let i = 0; i < count; i++) {
      // The raw data is there: what is measured is waiting for other chunks, not for the host.
      await ask(indexOf(i, 1));
      const began = performance.now();
      await ask(indexOf(i, 0));
      ms.push(performance.now() - began);
      waited.push((await models()).waitedFor.at(-1));
    }
    const still = over ? 0 : 1;
    await client.call("cancel", 99);
    const sorted = (list) => [...list].sort((a, b) => a - b);
    const at95 = Math.ceil(0.95 * count) - 1;
    return { count, still, jobs95: sorted(waited)[at95], jobs: waited, ms95: sorted(ms)[at95] };
  }, PANS);
}
