/** Waiting for what a page says by and by. (Playwright's own waiting takes the promise of an async predicate for true.) */

/** Asks again and again, until the predicate's answer is true; throws after `timeout` ms. */
export async function until(page, predicate, { timeout = 60_000, every = 25 } = {}) {
  const end = Date.now() + timeout;
  for (;;) {
    if (await page.evaluate(predicate)) return;
    if (Date.now() > end) throw new Error(`not within ${timeout} ms: ${predicate}`);
    await new Promise((resolve) => setTimeout(resolve, every));
  }
}
