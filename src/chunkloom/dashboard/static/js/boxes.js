// The box tool: boxes drawn in a second viewer, as nm; they go into the pipeline's input.
import { get, post, put } from "./api.js";
import { addNode, fromBuilder, toBuilder, updateNode, withChain } from "./canvas.js";
import { html, signal, useEffect } from "./html.js";
import { boxViewer, builder, chain, dataset } from "./store.js";

const drawn = signal([]);
const error = signal("");

const inputs = () => builder.value?.inputs ?? [];
export const boxesNow = () => inputs()[0]?.bounding_boxes ?? [];

async function keep(boxes) {
  let canvas = withChain(fromBuilder(builder.value), chain.value);
  if (!canvas.nodes.some((n) => n.kind === "input")) {
    canvas = addNode(canvas, "input", "data", { dataset_path: dataset.value.path, separate_bounding_boxes_zarrs: false }).canvas;
  }
  const node = canvas.nodes.find((n) => n.kind === "input");
  canvas = updateNode(canvas, node.id, { params: { ...node.params, bounding_boxes: boxes } });
  builder.value = toBuilder(canvas);
  await put("api/pipeline", { ...chain.value, builder: builder.value });
}

const guarded = (work) => async () => {
  error.value = "";
  try {
    await work();
  } catch (e) {
    error.value = e.message;
  }
};

const begin = guarded(async () => {
  const answer = await post("api/bbx-generator", { dataset_path: dataset.value.path, num_boxes: 0, existing_bounding_boxes: boxesNow() });
  drawn.value = answer.existing_bounding_boxes;
  boxViewer.value = answer.viewer_url;
});

const finish = guarded(async () => {
  const answer = await post("api/bbx-generator/finalize");
  boxViewer.value = null;
  await keep(answer.bounding_boxes);
});

const leave = guarded(async () => {
  boxViewer.value = null;
  await post("api/bbx-generator/finalize");
});

const text = (values) => values.map((v) => +v.toPrecision(7)).join(", ");

export function Boxes() {
  const drawing = boxViewer.value !== null;
  useEffect(() => {
    if (!drawing) return undefined;
    const timer = setInterval(() => get("api/bbx-generator/status").then((a) => { drawn.value = a.bounding_boxes; }, () => {}), 700);
    return () => clearInterval(timer);
  }, [drawing]);
  const boxes = drawing ? drawn.value : boxesNow();
  return html`<section class="section" aria-label="Boxes">
    <header><h2>Boxes</h2><span class="quiet small">${boxes.length || "none: all of the volume"}</span></header>
    ${boxes.map((box, i) => html`<div class="card" key=${i}><div class="body"><dl class="facts">
      <dt>Offset</dt><dd class="mono">${text(box.offset)} nm</dd><dt>Shape</dt><dd class="mono">${text(box.shape)} nm</dd></dl>
      ${!drawing && html`<button class="icon" aria-label=${`Remove box ${i + 1}`} onClick=${guarded(() => keep(boxes.filter((_, j) => j !== i)))}>Remove</button>`}</div></div>`)}
    ${drawing
      ? html`<div class="notice">Hold Ctrl and click one corner, turn the wheel to the plane of the opposite corner, and Ctrl-click that. Each box appears here.</div>
        <div class="row"><button class="primary" onClick=${finish}>Use these boxes</button><button onClick=${leave}>Leave without</button></div>`
      : html`<button disabled=${!dataset.value} onClick=${begin}>Draw boxes</button>`}
    ${error.value && html`<div class="notice bad" role="alert">${error.value}</div>`}
  </section>`;
}
