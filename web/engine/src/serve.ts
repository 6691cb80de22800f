/**
 * A volume answered as files, as a viewer asks for them: `<volume>/<format>/…`, format `zarr2` (or `zarr`) or `zarr3`,
 * levels `s0`, `s1`, …. Knows nothing of service workers or HTTP: takes a path, gives a status and bytes.
 */

import type { Engine } from "./engine.ts";
import { OptionError, QueueFullError } from "./errors.ts";
import { codecOf } from "./formats/codec.ts";
import type { Vec3 } from "./geometry.ts";
import { formatOf } from "./materialize.ts";
import { chunkBytesOf, chunkCounts, type Volume } from "./volume.ts";

export interface Answer {
  readonly status: number;
  readonly type: "application/json" | "application/octet-stream" | "text/plain";
  readonly body: Uint8Array | null;
}

/** What a path asks for, decided without reading a voxel. */
export type Asked =
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "chunk"; readonly volume: Volume; readonly level: number; readonly index: Vec3 };

const text = (status: number, words: string): Asked => ({
  kind: "answer",
  answer: { status, type: "text/plain", body: new TextEncoder().encode(words) },
});
const NONE = codecOf("none");

/** Parses a path. Whatever is not there is 404; so is a chunk past the grid. */
export function asked(engine: Engine, path: string): Asked {
  const [name, word, ...rest] = path.split("/").map(decodeURIComponent);
  if (!engine.names.includes(name)) return text(404, `no volume ${name}`);
  if (!["zarr", "zarr2", "zarr3"].includes(word))
    return text(404, `no format ${word}; there are zarr2 and zarr3`);
  const format = formatOf(word === "zarr" ? "zarr2" : word);
  const volume = engine.volume(name);
  const key = rest.join("/");
  const datasets = volume.levels.map((_, level) => ({ path: `s${level}`, level }));
  const files = [
    ...format.group(volume, datasets, []),
    ...datasets.map(({ path: at, level }) => format.array(volume, at, level, NONE)),
  ];
  const file = files.find(([its]) => its === key);
  if (file) {
    return {
      kind: "answer",
      answer: { status: 200, type: "application/json", body: new TextEncoder().encode(file[1]) },
    };
  }
  const level = /^s(\d+)\//.exec(key);
  const numbers = (format.word === "zarr2" ? /^s\d+\/([\d./]+)$/ : /^s\d+\/c\/([\d/]+)$/)
    .exec(key)?.[1]
    .split(/[./]/);
  if (!level || !numbers || numbers.length !== volume.channels.length + 3) return text(404, `no file ${key}`);
  const all = numbers.map(Number);
  const at = volume.levels[Number(level[1])];
  const index = all.slice(-3) as unknown as Vec3;
  const past = at && all.slice(0, -3).every((n) => n === 0) && index.every((n, a) => n < chunkCounts(at)[a]);
  if (!past || numbers.some((n) => n === ""))
    return text(404, `chunk ${numbers.join(".")} is outside the level`);
  return { kind: "chunk", volume, level: Number(level[1]), index };
}

/** The bytes of a chunk that was asked for, zeros where it is empty. */
export async function chunkAnswer(
  engine: Engine,
  { volume, level, index }: { volume: Volume; level: number; index: Vec3 },
  client: string,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const bytes = await engine.chunk(volume.name, level, index, { client, signal });
  return bytes ?? new Uint8Array(chunkBytesOf(volume, level));
}

/** The whole answer to a path: failures are 5xx with the reason in words, never 404, which viewers take as zeros. */
export async function answer(
  engine: Engine,
  path: string,
  { client = "page", signal }: { client?: string; signal?: AbortSignal } = {},
): Promise<Answer> {
  try {
    const what = asked(engine, path);
    if (what.kind === "answer") return what.answer;
    const body = await chunkAnswer(engine, what, client, signal);
    return { status: 200, type: "application/octet-stream", body };
  } catch (thrown) {
    signal?.throwIfAborted();
    const status = thrown instanceof QueueFullError ? 503 : thrown instanceof OptionError ? 400 : 500;
    return { status, type: "text/plain", body: new TextEncoder().encode((thrown as Error).message) };
  }
}
