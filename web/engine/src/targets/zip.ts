/**
 * A store as one zip file, streamed while it is written: entries are stored as they are (chunks are packed already),
 * with zip64 records throughout where sizes ask for them. Source: PKWARE APPNOTE 6.3.10.
 */

import type { Target } from "./target.ts";

const CRC = new Uint32Array(256).map((_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** CRC-32 as zip has it. */
export function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (let i = 0; i < bytes.length; i++) crc = CRC[(crc ^ bytes[i]) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

interface Entry {
  readonly name: Uint8Array;
  readonly crc: number;
  readonly size: number;
  readonly offset: number;
}

const MOST_32 = 0xffffffff;
const MOST_16 = 0xffff;
const UTF8 = 0x0800;
const DATE_1980 = 0x21; // 1980-01-01: the same store is the same zip

/** Little-endian fields: [bytes, value] pairs. */
function record(...fields: readonly (readonly [1 | 2 | 4 | 8, number])[]): Uint8Array {
  const out = new Uint8Array(fields.reduce((n, [width]) => n + width, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else if (width === 4) view.setUint32(at, value, true);
    else if (width === 8) view.setBigUint64(at, BigInt(value), true);
    else view.setUint8(at, value);
    at += width;
  }
  return out;
}

function localHeader(entry: Entry): Uint8Array {
  return record(
    [4, 0x04034b50],
    [2, 20],
    [2, UTF8],
    [2, 0],
    [2, 0],
    [2, DATE_1980],
    [4, entry.crc],
    [4, entry.size],
    [4, entry.size],
    [2, entry.name.length],
    [2, 0],
  );
}

function centralHeader(entry: Entry): Uint8Array[] {
  const far = entry.offset >= MOST_32;
  const extra = far ? record([2, 1], [2, 8], [8, entry.offset]) : new Uint8Array(0);
  const head = record(
    [4, 0x02014b50],
    [2, far ? 45 : 20],
    [2, far ? 45 : 20],
    [2, UTF8],
    [2, 0],
    [2, 0],
    [2, DATE_1980],
    [4, entry.crc],
    [4, entry.size],
    [4, entry.size],
    [2, entry.name.length],
    [2, extra.length],
    [2, 0],
    [2, 0],
    [2, 0],
    [4, 0],
    [4, far ? MOST_32 : entry.offset],
  );
  return [head, entry.name, extra];
}

function ending(count: number, size: number, offset: number, at: number): Uint8Array[] {
  const far = count >= MOST_16 || size >= MOST_32 || offset >= MOST_32;
  const out: Uint8Array[] = [];
  if (far) {
    out.push(
      record(
        [4, 0x06064b50],
        [8, 44],
        [2, 45],
        [2, 45],
        [4, 0],
        [4, 0],
        [8, count],
        [8, count],
        [8, size],
        [8, offset],
      ),
      record([4, 0x07064b50], [4, 0], [8, at], [4, 1]),
    );
  }
  const [n, s, o] = far ? [MOST_16, MOST_32, MOST_32] : [count, size, offset];
  out.push(record([4, 0x06054b50], [2, 0], [2, 0], [2, n], [2, n], [4, s], [4, o], [2, 0]));
  return out;
}

/**
 * A target that streams a zip, and the stream. Nothing is held but the list of entries: a write waits until the
 * stream's reader took what came before. A run that stops errors the stream, so that no half file looks whole.
 */
export function zipTarget(name: string): {
  readonly target: Target;
  readonly stream: ReadableStream<Uint8Array>;
} {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let ended: { readonly reason: unknown } | undefined;
  let wake = () => {};
  const end = (reason: unknown) => {
    ended ??= { reason };
    wake();
  };
  // Not a TransformStream: an abort of its writer waits for a write that waits for a reader who may be gone.
  const stream = new ReadableStream<Uint8Array>({
    start(its) {
      controller = its;
    },
    pull: () => wake(),
    cancel: (reason) => end(reason ?? new Error("the download was stopped")),
  });
  const entries: Entry[] = [];
  let at = 0;
  let turn: Promise<void> = Promise.resolve();

  const send = async (bytes: Uint8Array) => {
    while (!ended && (controller.desiredSize ?? 0) <= 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    if (ended) throw ended.reason;
    controller.enqueue(bytes.slice()); // the reader gets it later, and may take the buffer away
    at += bytes.length;
  };
  const add = async (key: string, bytes: Uint8Array) => {
    const entry = { name: new TextEncoder().encode(key), crc: crc32(bytes), size: bytes.length, offset: at };
    await send(localHeader(entry));
    await send(entry.name);
    await send(bytes);
    entries.push(entry);
  };
  const target: Target = {
    name,
    writeOnce: true,
    put(key, bytes) {
      const mine = turn.then(() => add(key, bytes));
      turn = mine.catch(() => {});
      return mine;
    },
    async close() {
      await turn;
      const offset = at;
      for (const entry of entries) for (const part of centralHeader(entry)) if (part.length) await send(part);
      for (const part of ending(entries.length, at - offset, offset, at)) await send(part);
      controller.close();
    },
    async abort(reason) {
      if (!ended) controller.error(reason);
      end(reason);
    },
  };
  return { target, stream };
}
