// What the pages show, as signals. Filled from the page's own data, then from the server's news.
import { get } from "./api.js";
import { batch, signal } from "./html.js";

const given = JSON.parse(document.getElementById("page-data").textContent);

export const schema = given.schema;
export const version = given.session.version;
export const dataset = signal(given.session.dataset);
export const viewerUrl = signal(given.session.neuroglancer_url);
export const boxViewer = signal(null);
export const chain = signal(given.session.pipeline);
// The person has changed the chain, and the server has not taken it yet: news must not undo that.
export const chainPending = signal(false);
export const builder = signal(given.session.builder);
export const models = signal(given.session.models);
export const layers = signal(given.session.layers);
export const logLines = signal([]);
export const connected = signal(true);

const KEPT_LINES = 10000;
let waiting = [];

export function take(session) {
  batch(() => {
    dataset.value = session.dataset;
    viewerUrl.value = session.neuroglancer_url;
    if (!chainPending.value) chain.value = session.pipeline;
    builder.value = session.builder;
    models.value = session.models;
    layers.value = session.layers;
  });
}

export async function refresh() {
  take(await get("api/session"));
}

function flush() {
  const lines = waiting;
  waiting = [];
  logLines.value = [...logLines.value, ...lines].slice(-KEPT_LINES);
}

function addLine(text) {
  const level = / (ERROR|WARNING|CRITICAL) /.exec(text.slice(0, 60))?.[1] ?? "";
  // Many lines come at once: the panel is drawn once a frame.
  if (!waiting.length) requestAnimationFrame(flush);
  waiting.push({ text, level: level === "CRITICAL" ? "ERROR" : level });
}

export function listen(onState = refresh) {
  const source = new EventSource("api/logs/stream");
  source.onopen = () => {
    if (!connected.value) onState();
    connected.value = true;
    logLines.value = [];
  };
  source.onerror = () => {
    connected.value = false;
  };
  source.onmessage = (event) => addLine(event.data);
  source.addEventListener("state", () => onState());
  return source;
}
