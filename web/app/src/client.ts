/** The page's end: calls to the engine's worker, and requests that the service worker relays to it. */

import type { MaterializeProgress } from "@chunkloom/engine";
import type { FromWorker, Methods, ToWorker } from "./messages.ts";

type Waiting = { resolve: (value: never) => void; reject: (thrown: Error) => void };

export class EngineClient {
  private readonly worker = new Worker(new URL("./engine.worker.ts", import.meta.url), { type: "module" });
  private readonly waiting = new Map<number, Waiting>();
  private next = 0;
  onProgress: (run: number, progress: MaterializeProgress) => void = () => {};
  onStream: (run: number, stream: ReadableStream<Uint8Array>) => void = () => {};

  constructor() {
    this.worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => this.receive(data));
    this.worker.addEventListener("error", (event) => {
      for (const { reject } of this.waiting.values())
        reject(new Error(`the engine stopped: ${event.message}`));
      this.waiting.clear();
    });
  }

  private receive(message: FromWorker): void {
    if (message.type === "progress") this.onProgress(message.run, message.progress);
    else if (message.type === "stream") this.onStream(message.run, message.stream);
    else {
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.type === "result") waiting?.resolve(message.value as never);
      else waiting?.reject(Object.assign(new Error(message.message), { name: message.name }));
    }
  }

  /** Calls a method of the engine's worker. */
  call<M extends keyof Methods>(method: M, ...args: Parameters<Methods[M]>): ReturnType<Methods[M]> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      const message: ToWorker = { type: "call", id, method, args };
      this.worker.postMessage(message);
    }) as ReturnType<Methods[M]>;
  }

  /** Passes a viewer's request on to the worker, with the port to answer on. */
  relay(path: string, port: MessagePort): void {
    const message: ToWorker = { type: "virtual", path };
    this.worker.postMessage(message, [port]);
  }
}

/**
 * Starts the service worker and waits until it controls the page; gives the address under which the viewer finds the
 * engine's volumes.
 */
export async function virtualBase(client: EngineClient): Promise<string> {
  if (!("serviceWorker" in navigator)) {
    throw new Error(
      "this browser has no service workers here (they need https, or 127.0.0.1): volumes cannot be shown",
    );
  }
  navigator.serviceWorker.addEventListener("message", ({ data, ports }) => {
    if (data?.type === "virtual") client.relay(data.path, ports[0]);
  });
  const scope = new URL("./", location.href).pathname;
  await navigator.serviceWorker.register(new URL("sw.js", location.href), { scope, type: "module" });
  if (!navigator.serviceWorker.controller) {
    await new Promise((resolve) =>
      navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }),
    );
  }
  const { port1, port2 } = new MessageChannel();
  const me = new Promise<string>((resolve) => {
    port1.onmessage = ({ data }) => resolve(data.client);
  });
  navigator.serviceWorker.controller!.postMessage({ type: "who" }, [port2]);
  return new URL(`${scope}virtual/${await me}`, location.href).href;
}

/**
 * Downloads a stream as a file without holding it: the service worker answers an address with it, which a hidden frame
 * opens. Resolves when the download has begun.
 */
export async function download(stream: ReadableStream<Uint8Array>, name: string): Promise<void> {
  const worker = navigator.serviceWorker.controller;
  if (!worker)
    throw new Error("downloads need this page's service worker, which is not running: reload the page");
  const id = crypto.randomUUID();
  const { port1, port2 } = new MessageChannel();
  const taken = new Promise((resolve) => {
    port1.onmessage = resolve;
  });
  worker.postMessage({ type: "download", id, name, stream }, [stream, port2]);
  await taken;
  const frame = document.createElement("iframe");
  frame.hidden = true;
  frame.src = new URL(`download/${id}`, location.href).href;
  document.body.append(frame);
}

/** Keeps the service worker from being put to sleep while something streams through it; returns what ends that. */
export function keepAwake(): () => void {
  const timer = setInterval(() => navigator.serviceWorker.controller?.postMessage({ type: "awake" }), 5000);
  return () => clearInterval(timer);
}
