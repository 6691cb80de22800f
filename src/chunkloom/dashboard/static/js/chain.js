// The chain's steps as cards that can be added, moved, changed and removed; sent a moment after the last change.
import { put } from "./api.js";
import { Field } from "./fields.js";
import { html, signal, useSignal } from "./html.js";
import { chain, chainPending, models, schema } from "./store.js";

const WAIT_MS = 150;

export const KINDS = {
  input_norm: { title: "Before the model", none: "Raw voxels go into the model as they are.", add: "Add a normalizer" },
  postprocess: { title: "After the model", none: "The model's output is shown as it is.", add: "Add a postprocessor" },
};

export const stepSchemas = (kind) => schema.properties[kind].items.oneOf;
export const stepSchema = (kind, name) => stepSchemas(kind).find((s) => s.title === name);
export const chainError = signal("");
export const sending = signal(false);

let timer = null;
let turn = 0;

export function change(kind, steps) {
  chain.value = { ...chain.value, [kind]: steps };
  chainPending.value = true;
  clearTimeout(timer);
  timer = setTimeout(send, WAIT_MS);
}

async function send() {
  const mine = ++turn;
  timer = null;
  sending.value = true;
  try {
    await put("api/pipeline", chain.value);
    if (mine === turn) chainError.value = "";
    if (mine === turn && timer === null) chainPending.value = false;
  } catch (error) {
    if (mine === turn) chainError.value = error.message;
  } finally {
    if (mine === turn) sending.value = false;
  }
}

export function freshStep(described) {
  const step = { name: described.title };
  for (const [name, field] of Object.entries(described.properties)) {
    if (name !== "name") step[name] = field.default ?? "";
  }
  for (const [name, field] of Object.entries(described.properties)) {
    if (name !== "name" && field.default === null) delete step[name];
  }
  if (described.title.startsWith("Lambda")) step.expression = described.title === "LambdaNormalizer" ? "x*2-1" : "x";
  return step;
}

// The values a threshold can have: what the steps before it, or else the model, were seen to give.
function knownRange(kind, name, before) {
  if (kind !== "postprocess" || name !== "threshold") return undefined;
  const last = before.map((s) => s.name).filter((n) => ["SigmoidPostprocessor", "DefaultPostprocessor"].includes(n)).at(-1);
  if (last) return last === "SigmoidPostprocessor" ? [0, 1] : [0, 255];
  const info = models.value.find((m) => m.info?.output_class)?.info;
  if (info?.output_class === "signed_unit") return [-1, 1];
  if (info?.output_class === "unbounded") return [Math.min(0, info.output_min), Math.max(1, info.output_max)];
  return [0, 1];
}

export function Steps({ kind }) {
  const steps = chain.value[kind];
  const dragged = useSignal(null);
  const words = KINDS[kind];
  const replace = (index, step) => change(kind, steps.map((s, i) => (i === index ? step : s)));
  const move = (from, to) => {
    if (to < 0 || to >= steps.length) return;
    const moved = [...steps];
    moved.splice(to, 0, ...moved.splice(from, 1));
    change(kind, moved);
  };
  return html`<section class="section" aria-label=${words.title}>
    <header><h2>${words.title}</h2></header>
    ${steps.length === 0 && html`<p class="quiet small">${words.none}</p>`}
    ${steps.map((step, index) => html`<${StepCard} key=${`${index}-${step.name}`} kind=${kind} step=${step} index=${index} count=${steps.length}
      onChange=${(s) => replace(index, s)} onRemove=${() => change(kind, steps.filter((_, i) => i !== index))}
      onMove=${(by) => move(index, index + by)}
      onDrag=${() => { dragged.value = index; }} onDrop=${() => { if (dragged.value !== null) move(dragged.value, index); dragged.value = null; }} />`)}
    <label class="row"><span class="small quiet">${words.add}</span>
      <select class="grow" value="" onChange=${(e) => {
        const described = stepSchema(kind, e.target.value);
        e.target.value = "";
        if (described) change(kind, [...steps, freshStep(described)]);
      }}>
        <option value="">choose…</option>
        ${stepSchemas(kind).map((s) => html`<option key=${s.title} value=${s.title} title=${s.description}>${s.title}</option>`)}
      </select>
    </label>
  </section>`;
}

function StepCard({ kind, step, index, count, onChange, onRemove, onMove, onDrag, onDrop }) {
  const described = stepSchema(kind, step.name);
  const over = useSignal(false);
  return html`<article class=${`card${over.value ? " over" : ""}`}
    onDragOver=${(e) => { e.preventDefault(); over.value = true; }} onDragLeave=${() => { over.value = false; }}
    onDrop=${(e) => { e.preventDefault(); over.value = false; onDrop(); }}>
    <header draggable="true" onDragStart=${onDrag}>
      <h3 title=${described?.description ?? ""}>${step.name}</h3>
      <button class="icon bare" aria-label=${`Move ${step.name} up`} disabled=${index === 0} onClick=${() => onMove(-1)}>↑</button>
      <button class="icon bare" aria-label=${`Move ${step.name} down`} disabled=${index === count - 1} onClick=${() => onMove(1)}>↓</button>
      <button class="icon bare" aria-label=${`Remove ${step.name}`} onClick=${onRemove}>✕</button>
    </header>
    <div class="body">
      ${described ? html`<p class="quiet small">${described.description}</p>` : html`<p class="notice bad">This step is not known here.</p>`}
      ${Object.entries(described?.properties ?? {}).filter(([name]) => name !== "name").map(([name, field]) => html`<${Field}
        key=${name} id=${`${kind}-${index}-${name}`} name=${name} schema=${field} value=${step[name]} range=${knownRange(kind, name, chain.value[kind].slice(0, index))}
        onChange=${(value) => onChange({ ...step, [name]: value })} />`)}
    </div>
  </article>`;
}

export function ChainTab({ kind }) {
  return html`<div>
    ${chainError.value && html`<div class="notice bad" role="alert">${chainError.value}</div>`}
    ${sending.value && html`<div class="progress" role="status" aria-label="Sending the chain"></div>`}
    <${Steps} kind=${kind} />
  </div>`;
}
