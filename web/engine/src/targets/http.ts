/** A store that is PUT over HTTP: our own server, or a bucket that takes writes. */

import { ChunkloomError } from "../errors.ts";
import type { Target } from "./target.ts";

const ATTEMPTS = 3;

/** A target at a URL. 5xx, 429 and broken connections are tried again. `headers` go with each request. */
export function httpTarget(
  url: string,
  { headers = {}, fetcher = fetch }: { headers?: Record<string, string>; fetcher?: typeof fetch } = {},
): Target {
  const base = url.replace(/\/+$/, "");
  const at = (key: string) => `${base}/${key.split("/").map(encodeURIComponent).join("/")}`;

  async function ask(method: string, key: string, body?: Uint8Array): Promise<Response> {
    for (let i = 1; ; i++) {
      try {
        const answer = await fetcher(at(key), { method, headers, body: body as BodyInit | undefined });
        if ((answer.status < 500 && answer.status !== 429) || i === ATTEMPTS) return answer;
        await answer.body?.cancel();
      } catch (thrown) {
        if (i < ATTEMPTS) await new Promise((resolve) => setTimeout(resolve, 100 * 4 ** i));
        else {
          throw new ChunkloomError(
            `${(thrown as Error).message}; the host cannot be reached, or does not let this page write to it (CORS)`,
            { cause: thrown },
          );
        }
        continue;
      }
      await new Promise((resolve) => setTimeout(resolve, 100 * 4 ** i));
    }
  }

  return {
    name: url,
    async put(key, bytes) {
      const answer = await ask("PUT", key, bytes);
      await answer.body?.cancel();
      if (!answer.ok)
        throw new ChunkloomError(`the host answered HTTP ${answer.status} ${answer.statusText}`.trim());
    },
    async get(key) {
      const answer = await ask("GET", key);
      if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
      await answer.body?.cancel();
      if ([403, 404, 405, 410].includes(answer.status)) return null; // a place that can be written need not be readable
      throw new ChunkloomError(`the host answered HTTP ${answer.status} ${answer.statusText}`.trim());
    },
  };
}
