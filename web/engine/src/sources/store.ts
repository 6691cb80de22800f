/** Where a stored dataset is read from: files by key. HTTP (S3 and GCS too), a local folder, a map. */

import { ChunkloomError, VolumeNotFoundError } from "../errors.ts";

/** Files by key, without a leading slash. `undefined` where there is none; anything else that goes wrong throws. */
export interface ReadStore {
  /** How messages name it. */
  readonly name: string;
  get(key: string, signal?: AbortSignal): Promise<Uint8Array | undefined>;
  /** Part of a file; `suffix` bytes from its end, or `length` from `offset`. */
  range?(
    key: string,
    part: { readonly offset: number; readonly length: number } | { readonly suffix: number },
    signal?: AbortSignal,
  ): Promise<Uint8Array | undefined>;
  /** What identifies the state of a file that was read (an ETag, a date), where that is known. */
  state?(key: string): string | undefined;
}

/** A reading that the host refused: 401 or 403. What is missing in a readable dataset may be answered so. */
export class RefusedError extends ChunkloomError {
  readonly status: number;

  constructor(url: string, status: number) {
    super(
      `${url}: the host refuses to answer (HTTP ${status}); it may want a login, or the name may be wrong`,
    );
    this.status = status;
  }
}

/** A store of files in memory. */
export function memoryStore(files: ReadonlyMap<string, Uint8Array>, name = "memory"): ReadStore {
  return {
    name,
    async get(key) {
      return files.get(key);
    },
  };
}

/** The https address of a location: `s3://bucket/key` and `gs://bucket/key` are public buckets. */
export function httpUrl(location: string): string {
  const bucket = /^(s3|gs):\/\/([^/]+)\/?(.*)$/.exec(location);
  if (!bucket) return location.replace(/\/+$/, "");
  const [, scheme, name, key] = bucket;
  // Bucket names with a dot do not match S3's certificate: they go into the path.
  const base =
    scheme === "gs"
      ? `https://storage.googleapis.com/${name}`
      : name.includes(".")
        ? `https://s3.amazonaws.com/${name}`
        : `https://${name}.s3.amazonaws.com`;
  return `${base}/${key}`.replace(/\/+$/, "");
}

const ATTEMPTS = 3;

/** A store over HTTP. 404 is a missing file; 401 and 403 are `RefusedError`; 5xx and broken connections are tried again. */
export function httpStore(location: string, fetcher: typeof fetch = fetch): ReadStore {
  const base = httpUrl(location);
  const states = new Map<string, string>();

  async function attempt(url: string, headers: Record<string, string>, signal?: AbortSignal) {
    for (let i = 1; ; i++) {
      let response: Response;
      try {
        response = await fetcher(url, { headers, signal });
      } catch (thrown) {
        signal?.throwIfAborted();
        if (i < ATTEMPTS) {
          await pause(100 * 4 ** i, signal);
          continue;
        }
        throw new VolumeNotFoundError(
          `${url}: could not be fetched (${(thrown as Error).message}). Either the host cannot be reached, or it does not ` +
            `let pages of other origins read it (CORS): ask it to send Access-Control-Allow-Origin for this page`,
          { cause: thrown },
        );
      }
      if (response.status < 500 && response.status !== 429) return response;
      await response.body?.cancel();
      if (i === ATTEMPTS)
        throw new ChunkloomError(`${url}: the host answered HTTP ${response.status}; try again later`);
      await pause(100 * 4 ** i, signal);
    }
  }

  async function get(key: string, headers: Record<string, string>, signal?: AbortSignal) {
    const url = `${base}/${key.split("/").map(encodeURIComponent).join("/")}`;
    const response = await attempt(url, headers, signal);
    if (response.ok) {
      const state = response.headers.get("etag") ?? response.headers.get("last-modified");
      if (state) states.set(key, state);
      return { bytes: new Uint8Array(await response.arrayBuffer()), status: response.status };
    }
    await response.body?.cancel();
    if (response.status === 404 || response.status === 410) return undefined;
    if (response.status === 401 || response.status === 403) throw new RefusedError(url, response.status);
    throw new ChunkloomError(`${url}: the host answered HTTP ${response.status}; expected 200 or 404`);
  }

  return {
    name: location,
    state: (key) => states.get(key),
    async get(key, signal) {
      return (await get(key, {}, signal))?.bytes;
    },
    async range(key, part, signal) {
      const asked =
        "suffix" in part ? `bytes=-${part.suffix}` : `bytes=${part.offset}-${part.offset + part.length - 1}`;
      const answer = await get(key, { Range: asked }, signal);
      if (!answer || answer.status === 206) return answer?.bytes;
      // The host sent all of it.
      if ("suffix" in part) return answer.bytes.subarray(Math.max(0, answer.bytes.length - part.suffix));
      return answer.bytes.subarray(part.offset, part.offset + part.length);
    },
  };
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** A store of a local folder that a page was given (File System Access), or of OPFS. */
export function directoryStore(folder: FileSystemDirectoryHandle): ReadStore {
  async function file(key: string): Promise<File | undefined> {
    const parts = key.split("/");
    try {
      let at = folder;
      for (const part of parts.slice(0, -1)) at = await at.getDirectoryHandle(part);
      return await (await at.getFileHandle(parts[parts.length - 1])).getFile();
    } catch (thrown) {
      const name = (thrown as Error).name;
      if (name === "NotFoundError" || name === "TypeMismatchError") return undefined;
      throw new ChunkloomError(`${folder.name}/${key}: ${(thrown as Error).message}`, { cause: thrown });
    }
  }
  const states = new Map<string, string>();
  return {
    name: folder.name,
    state: (key) => states.get(key),
    async get(key) {
      const found = await file(key);
      if (!found) return undefined;
      states.set(key, `${found.lastModified}`);
      return new Uint8Array(await found.arrayBuffer());
    },
    async range(key, part) {
      const found = await file(key);
      if (!found) return undefined;
      const cut =
        "suffix" in part ? found.slice(-part.suffix) : found.slice(part.offset, part.offset + part.length);
      return new Uint8Array(await cut.arrayBuffer());
    },
  };
}
