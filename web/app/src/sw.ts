/**
 * Answers `…/virtual/<page>/…`: relays each request to the page it names, which passes it to its engine.
 *
 * A service worker is not told when a fetch is given up, but a stream that it answered with is cancelled: so a chunk
 * is answered at once by a stream, whose cancelling goes back to the engine.
 */

import type { ToServiceWorker } from "./messages.ts";

const worker = self as unknown as ServiceWorkerGlobalScope;

worker.addEventListener("install", () => void worker.skipWaiting());
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

/** Streams that wait to be downloaded, by id. */
const downloads = new Map<string, { readonly name: string; readonly stream: ReadableStream<Uint8Array> }>();

/**
 * `who`: a page asks which client it is, the name that its addresses carry. `download`: it gives a stream, which is
 * answered once at `download/<id>`. (`awake` is said now and then while a stream runs: any message will do.)
 */
worker.addEventListener("message", ({ data, ports, source }) => {
  if (data?.type === "who") ports[0].postMessage({ client: (source as Client).id });
  else if (data?.type === "download") {
    downloads.set(data.id, { name: data.name, stream: data.stream });
    ports[0].postMessage({});
  }
});

function download(id: string): Response {
  const found = downloads.get(id);
  downloads.delete(id);
  if (!found) return failed(404, "this download is over");
  const disposition = `attachment; filename*=UTF-8''${encodeURIComponent(found.name)}`;
  return new Response(found.stream, {
    headers: { "Content-Type": "application/zip", "Content-Disposition": disposition },
  });
}

worker.addEventListener("fetch", (event) => {
  const scope = new URL(worker.registration.scope).pathname;
  const { pathname, origin } = new URL(event.request.url);
  if (origin === worker.location.origin && pathname.startsWith(`${scope}download/`)) {
    event.respondWith(download(pathname.slice(`${scope}download/`.length)));
    return;
  }
  if (origin !== worker.location.origin || !pathname.startsWith(`${scope}virtual/`)) return;
  const [page, ...rest] = pathname.slice(`${scope}virtual/`.length).split("/");
  event.respondWith(relay(page, rest.join("/"), event.request.signal));
});

const failed = (status: number, message: string) => new Response(message, { status });

async function relay(page: string, path: string, signal: AbortSignal): Promise<Response> {
  const client = await worker.clients.get(page);
  if (!client) return failed(503, "the page that computes this volume was closed");
  const { port1, port2 } = new MessageChannel();
  client.postMessage({ type: "virtual", path }, [port2]);
  signal.addEventListener("abort", () => port1.postMessage({ type: "cancel" }));
  return new Promise<Response>((resolve) => {
    let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
    port1.onmessage = ({ data }: MessageEvent<ToServiceWorker>) => {
      if (data.type === "whole") {
        const body = data.body as Uint8Array<ArrayBuffer> | null;
        resolve(new Response(body, { status: data.status, headers: { "Content-Type": data.contentType } }));
        port1.close();
      } else if (data.type === "begin") {
        const body = new ReadableStream<Uint8Array>({
          start(controller) {
            stream = controller;
          },
          cancel() {
            port1.postMessage({ type: "cancel" });
            port1.close();
          },
        });
        resolve(new Response(body, { headers: { "Content-Type": "application/octet-stream" } }));
      } else if (data.type === "bytes") {
        stream?.enqueue(data.body);
        stream?.close();
        port1.close();
      } else {
        stream?.error(new Error(data.message));
        port1.close();
      }
    };
  });
}
