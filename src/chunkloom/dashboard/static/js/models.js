// The Models tab: what runs, what can be run, and a form for any kind of model.
import { get, post } from "./api.js";
import { Field } from "./fields.js";
import { html, signal, useEffect } from "./html.js";
import { dataset, models } from "./store.js";

const offered = signal([]);
const kinds = signal({});
const kind = signal("script");
const values = signal({});
const error = signal("");
const busy = signal(false);

const titleOf = (entry) => entry.name ?? entry.type;

async function select(entries) {
  busy.value = true;
  error.value = "";
  const before = models.value;
  // Shown at once; the answer says what became of it.
  models.value = entries.map((entry) => before.find((m) => m.name === titleOf(entry) && m.state !== "failed")
    ?? { name: titleOf(entry), entry, state: "starting", error: null, info: null });
  try {
    const answer = await post("api/models", { selected_models: entries, selected_hf_models: [] });
    models.value = answer.models;
  } catch (e) {
    error.value = e.message;
    models.value = before;
  } finally {
    busy.value = false;
  }
}

export const entries = () => models.value.map((m) => m.entry);
const start = (entry) => select([...entries().filter((e) => titleOf(e) !== titleOf(entry)), entry]);
const stop = (name) => select(entries().filter((e) => titleOf(e) !== name));

function Running({ model }) {
  return html`<article class="card">
    <header><h3 title=${model.name}>${model.name}</h3><span class=${`state ${model.state}`}>${model.state}</span>
      <button class="icon bare" aria-label=${`Stop ${model.name}`} onClick=${() => stop(model.name)}>✕</button></header>
    ${model.state === "starting" && html`<div class="progress" role="status" aria-label=${`${model.name} is starting`}></div>`}
    ${(model.error || model.info) && html`<div class="body">
      ${model.error && html`<div class="notice bad" role="alert">${model.error}</div>
        <button onClick=${() => start(model.entry)}>Try again</button>`}
      ${model.info && html`<${Info} info=${model.info} />`}
    </div>`}
  </article>`;
}

function Info({ info }) {
  const range = info.output_class
    ? `${info.output_class.replace("_", " ")}, ${(+info.output_min).toPrecision(3)} to ${(+info.output_max).toPrecision(3)}`
    : null;
  return html`<dl class="facts">
    ${info.channels && html`<dt>Channels</dt><dd>${info.channels.join(", ")}</dd>`}
    ${info.output_voxel_size && html`<dt>Voxel</dt><dd>${info.output_voxel_size.join(" × ")} nm</dd>`}
    ${range && html`<dt>Output</dt><dd>${range}</dd>`}
  </dl>`;
}

function Offered() {
  const running = new Set(models.value.map((m) => m.name));
  return html`<section class="section" aria-label="Ready to run">
    <header><h2>Ready to run</h2></header>
    ${offered.value.map((entry) => html`<label class="row" key=${entry.name}><input type="checkbox" checked=${running.has(entry.name)}
      disabled=${!dataset.value || busy.value} onChange=${(e) => (e.target.checked ? start(entry) : stop(entry.name))} />
      <span class="grow">${entry.name}</span><span class="quiet small">${entry.type}</span></label>`)}
  </section>`;
}

function NewModel() {
  const described = kinds.value[kind.value];
  const submit = async (event) => {
    event.preventDefault();
    error.value = "";
    try {
      const made = await post("api/create-model-config", { class_name: kind.value, params: values.value });
      await start({ ...made.entry, name: values.value.name || made.entry.name || kind.value });
    } catch (e) {
      error.value = e.message;
    }
  };
  return html`<section class="section" aria-label="Another model">
    <header><h2>Another model</h2></header>
    <form onSubmit=${submit}>
      <label class="field"><span class="name">Kind</span>
        <select id="model-kind" value=${kind.value} onChange=${(e) => { kind.value = e.target.value; values.value = {}; }}>
          ${Object.keys(kinds.value).map((k) => html`<option key=${k} value=${k} selected=${k === kind.value}>${k}</option>`)}
        </select></label>
      ${described && html`<p class="quiet small">${described.help}</p>`}
      ${described?.params.map((p) => html`<${Field} key=${`${kind.value}-${p.name}`} id=${`model-${p.name}`} name=${p.name}
        schema=${{ type: p.required ? "string" : ["string", "null"], default: p.default ?? null, description: p.help }}
        value=${values.value[p.name]} onChange=${(v) => { values.value = { ...values.value, [p.name]: v }; }} />`)}
      <button class="primary" disabled=${!dataset.value || busy.value}>Run it</button>
      ${!dataset.value && html`<p class="quiet small">Open data first.</p>`}
    </form>
  </section>`;
}

export function ModelsTab() {
  useEffect(() => {
    get("api/models").then((a) => { offered.value = a.bundled; }).catch((e) => { error.value = e.message; });
    get("api/model-config-types").then((a) => { kinds.value = a.types; }).catch((e) => { error.value = e.message; });
  }, []);
  return html`<div>
    ${error.value && html`<div class="notice bad" role="alert">${error.value}</div>`}
    <section class="section" aria-label="Running">
      <header><h2>Running</h2></header>
      ${models.value.length === 0 && html`<p class="quiet small">No model runs yet.</p>`}
      ${models.value.map((m) => html`<${Running} key=${m.name} model=${m} />`)}
    </section>
    <${Offered} />
    <${NewModel} />
  </div>`;
}
