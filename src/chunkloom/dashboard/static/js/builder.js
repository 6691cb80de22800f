// The pipeline builder: nodes on a canvas, sent as the session's chain two seconds after the last change.
import { get, post, put } from "./api.js";
import { addNode, chainOf, connect, fromBuilder, implied, ordered, removeNode, toBuilder, updateNode, withChain } from "./canvas.js";
import { freshStep, stepSchema, stepSchemas } from "./chain.js";
import { Field } from "./fields.js";
import { html, render, signal, useEffect, useRef, useSignal } from "./html.js";
import { builder, chain, dataset, models } from "./store.js";
import { ThemeSwitch } from "./theme.js";
import { dump, load } from "../vendor/js-yaml.js";

const WAIT_MS = 2000;
const STEP_KIND = { normalizer: "input_norm", postprocessor: "postprocess" };

function opened() {
  let canvas = withChain(fromBuilder(builder.value), chain.value);
  if (dataset.value && !canvas.nodes.some((n) => n.kind === "input")) {
    canvas = addNode(canvas, "input", "data", { dataset_path: dataset.value.path, bounding_boxes: [], separate_bounding_boxes_zarrs: false }).canvas;
  }
  // The flow as it is: from the data through the steps.
  for (const model of models.value) {
    if (!canvas.nodes.some((n) => n.kind === "model" && n.name === model.name)) canvas = addNode(canvas, "model", model.name, model.entry).canvas;
  }
  return canvas;
}

const canvas = signal(opened());
const chosen = signal(null);
const status = signal({ text: "Changes are sent by themselves.", bad: false });
const offered = signal([]);
let timer = null;

function say(text, bad = false) {
  status.value = { text, bad };
}

const body = () => ({ ...chainOf(canvas.value), builder: toBuilder(canvas.value) });

async function send() {
  timer = null;
  try {
    const answer = await put("api/pipeline", body());
    say(`Sent: ${answer.pipeline.input_norm.length} normalizers, ${answer.pipeline.postprocess.length} postprocessors.`);
  } catch (error) {
    say(error.message, true);
  }
}

function edit(next) {
  canvas.value = next;
  say("Changed, sending soon…");
  clearTimeout(timer);
  timer = setTimeout(send, WAIT_MS);
}

// A page that is left with an unsent change sends it on its way out.
addEventListener("pagehide", () => {
  if (timer === null) return;
  fetch("api/pipeline", { method: "PUT", keepalive: true, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body()) });
});

function add(kind, name, params) {
  const made = addNode(canvas.value, kind, name, params);
  const same = ordered(canvas.value, kind);
  // A step goes behind the last of its kind, where one expects it.
  edit(STEP_KIND[kind] && same.length ? connect(made.canvas, same.at(-1).id, made.node.id) : made.canvas);
  chosen.value = made.node.id;
}

function Palette() {
  useEffect(() => {
    get("api/models").then((a) => { offered.value = a.bundled; }).catch((e) => say(e.message, true));
  }, []);
  const step = (kind) => (s) => html`<button key=${s.title} title=${s.description} onClick=${() => {
    const { name, ...params } = freshStep(s);
    add(kind, name, params);
  }}>${s.title}</button>`;
  return html`<aside class="palette" aria-label="What can be added">
    <h2>Data</h2>
    <button onClick=${() => add("input", "data", { dataset_path: dataset.value?.path ?? "", bounding_boxes: [], separate_bounding_boxes_zarrs: false })}>Input</button>
    <button onClick=${() => add("output", "result", { dataset_path: "", output_channels: [] })}>Output</button>
    <button onClick=${() => add("blockwise", "blockwise", {})}>Blockwise settings</button>
    <h2>Models</h2>
    ${offered.value.map((m) => html`<button key=${m.name} onClick=${() => add("model", m.name, m)}>${m.name}</button>`)}
    <h2>Normalizers</h2>${stepSchemas("input_norm").map(step("normalizer"))}
    <h2>Postprocessors</h2>${stepSchemas("postprocess").map(step("postprocessor"))}
  </aside>`;
}

const summary = (node) => {
  if (node.kind === "input" || node.kind === "output") return node.params.dataset_path || "no path yet";
  const shown = Object.entries(node.params).filter(([k]) => !["name", "type"].includes(k)).map(([k, v]) => `${k} ${v}`);
  return shown.join(", ") || node.kind;
};

function Node({ node }) {
  const start = useRef(null);
  const onDown = (e) => {
    if (e.button !== 0) return;
    e.currentTarget.setPointerCapture(e.pointerId);
    start.current = { x: e.clientX - node.x, y: e.clientY - node.y, moved: false };
    chosen.value = node.id;
  };
  const onMove = (e) => {
    if (!start.current) return;
    start.current.moved = true;
    const x = Math.max(0, e.clientX - start.current.x);
    const y = Math.max(0, e.clientY - start.current.y);
    canvas.value = updateNode(canvas.value, node.id, { x, y });
  };
  const onUp = () => {
    if (start.current?.moved) edit(canvas.value);
    start.current = null;
  };
  const onKey = (e) => {
    const by = { ArrowLeft: [-22, 0], ArrowRight: [22, 0], ArrowUp: [0, -22], ArrowDown: [0, 22] }[e.key];
    if (by) {
      e.preventDefault();
      edit(updateNode(canvas.value, node.id, { x: Math.max(0, node.x + by[0]), y: Math.max(0, node.y + by[1]) }));
    } else if (e.key === "Delete" || e.key === "Backspace") {
      edit(removeNode(canvas.value, node.id));
      chosen.value = null;
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      chosen.value = node.id;
    }
  };
  return html`<div class=${`node ${node.kind}`} style=${{ left: `${node.x}px`, top: `${node.y}px` }} role="button" tabindex="0" data-node=${node.id}
    aria-pressed=${chosen.value === node.id} onPointerDown=${onDown} onPointerMove=${onMove}
    onPointerUp=${onUp} onKeyDown=${onKey} onFocus=${() => { chosen.value = node.id; }}>
    <header><span class="unseen">${node.kind} </span>${node.name}</header><div title=${summary(node)}>${summary(node)}</div>
  </div>`;
}

// Side by side: from side to side. One above the other: from foot to head.
function path(a, b) {
  if (Math.abs(a.y - b.y) < 60) {
    const [x1, x2] = a.x < b.x ? [a.x + 190, b.x] : [a.x, b.x + 190];
    return `M${x1},${a.y + 28} L${x2},${b.y + 28}`;
  }
  const [y1, y2] = a.y < b.y ? [a.y + 56, b.y] : [a.y, b.y + 56];
  const bend = (y2 - y1) / 2;
  return `M${a.x + 95},${y1} C${a.x + 95},${y1 + bend} ${b.x + 95},${y2 - bend} ${b.x + 95},${y2}`;
}

function Edges() {
  const at = new Map(canvas.value.nodes.map((n) => [n.id, n]));
  const line = (kind) => (e) => at.has(e.source) && at.has(e.target) && html`<path key=${e.id} class=${kind} d=${path(at.get(e.source), at.get(e.target))} />`;
  return html`<svg aria-hidden="true">${implied(canvas.value).map(line("implied"))}${canvas.value.edges.map(line("said"))}</svg>`;
}

const PATHS = {
  input: {
    dataset_path: { type: "string", description: "The volume to read." },
    separate_bounding_boxes_zarrs: { type: "boolean", default: false, description: "One result for each box." },
  },
  output: { dataset_path: { type: "string", description: "Where a whole-volume run writes, ending in .zarr." } },
  blockwise: {
    tmp_dir: { type: "string", description: "A folder that all workers see, for the marks of finished blocks." },
    nb_workers: { type: ["integer", "null"], minimum: 1, default: null, description: "Workers; as in your settings when empty." },
    nb_cores_worker: { type: ["integer", "null"], minimum: 1, default: null, description: "Cores of each." },
    nb_cores_master: { type: ["integer", "null"], minimum: 1, default: null, description: "Cores of the process that hands out blocks." },
    queue: { type: ["string", "null"], default: null, description: "Queue or partition; the site's when empty." },
    charge_group: { type: ["string", "null"], default: null, description: "Who pays; only LSF needs it." },
  },
};

function JsonBox({ id, label, value, onChange, help }) {
  const wrong = useSignal("");
  return html`<div class="field"><span class="name"><label for=${id}>${label}</label></span>
    <textarea id=${id} class="mono" spellcheck=${false} value=${JSON.stringify(value ?? [])} onChange=${(e) => {
      try {
        onChange(JSON.parse(e.target.value || "[]"));
        wrong.value = "";
      } catch {
        wrong.value = "This is no JSON list.";
      }
    }}></textarea>
    <div class="help">${wrong.value || help}</div></div>`;
}

const run = signal({ text: "", bad: false, paths: [], name: null, busy: false });

// Check, write and submit: each says how it went where the person is looking.
async function step(work) {
  run.value = { ...run.value, busy: true, text: "", bad: false };
  try {
    run.value = { ...run.value, ...(await work()), busy: false };
  } catch (error) {
    run.value = { ...run.value, text: error.message, bad: true, busy: false };
  }
}

const pipeline = () => toBuilder(canvas.value);
const write = () => step(async () => {
  const made = await post("api/blockwise/generate", { pipeline: pipeline(), job_name: "" });
  await post("api/blockwise/precheck", { yaml_paths: made.task_paths });
  return { text: `Checked and written: ${made.task_paths.join(", ")}`, paths: made.task_paths, name: made.task_name };
});
const submit = () => step(async () => {
  const sent = await post("api/blockwise/submit", { pipeline: pipeline(), yaml_paths: run.value.paths, task_name: run.value.name });
  return { text: `${sent.message}. It writes its log to ${sent.log_path ?? "the scheduler's"}.` };
});

function Run() {
  return html`<section class="section" aria-label="Run">
    <header><h3>Whole-volume run</h3></header>
    <p class="quiet small">Writes a task file for <code>chunkloom blockwise</code>, and starts it where jobs run here. A run goes on when this dashboard ends.</p>
    <div class="row"><button disabled=${run.value.busy} onClick=${write}>Check and write</button>
      <button class="primary" disabled=${run.value.busy} onClick=${submit}>Submit</button></div>
    ${run.value.busy && html`<div class="progress" role="status" aria-label="Working"></div>`}
    ${run.value.text && html`<div class=${`notice ${run.value.bad ? "bad" : "good"}`} role=${run.value.bad ? "alert" : "status"}>${run.value.text}</div>`}
  </section>`;
}

function Inspector() {
  const node = canvas.value.nodes.find((n) => n.id === chosen.value);
  if (!node) return html`<aside class="inspect" aria-label="Settings"><p class="quiet">Choose a node to change it. Arrow keys move it, Delete removes it.</p></aside>`;
  const set = (name, value) => edit(updateNode(canvas.value, node.id, { params: { ...node.params, [name]: value } }));
  const fields = STEP_KIND[node.kind] ? (stepSchema(STEP_KIND[node.kind], node.name)?.properties ?? {}) : (PATHS[node.kind] ?? {});
  const others = canvas.value.nodes.filter((n) => n.id !== node.id);
  const name = (id) => canvas.value.nodes.find((n) => n.id === id)?.name ?? id;
  const leaving = canvas.value.edges.filter((e) => e.source === node.id);
  return html`<aside class="inspect" aria-label="Settings" key=${node.id}>
    <div class="row spread"><h2>${node.name}</h2><span class="quiet small">${node.kind}</span></div>
    <p class="quiet small">${STEP_KIND[node.kind] ? stepSchema(STEP_KIND[node.kind], node.name)?.description : ""}</p>
    ${Object.entries(fields).filter(([k]) => k !== "name").map(([k, f]) => html`<${Field} key=${k} id=${`node-${k}`} name=${k} schema=${f} value=${node.params[k]}
      onChange=${(v) => set(k, v)} />`)}
    ${node.kind === "input" && html`<${JsonBox} id="node-boxes" label="Bounding boxes" value=${node.params.bounding_boxes} onChange=${(v) => set("bounding_boxes", v)}
      help="[{offset: [z, y, x], shape: [z, y, x]}] in nm; none for all of it." />`}
    ${node.kind === "output" && html`<${JsonBox} id="node-channels" label="Channels" value=${node.params.output_channels} onChange=${(v) => set("output_channels", v)} help="Names, as a list; none for all." />`}
    ${node.kind === "model" && html`<pre class="mono small" tabindex="0">${dump(node.params)}</pre>`}
    ${node.kind === "blockwise" && html`<${Run} />`}
    <section class="section"><header><h3>Goes on to</h3></header>
      ${leaving.map((e) => html`<div class="row" key=${e.id}><span class="grow">${name(e.target)}</span>
        <button class="icon bare" aria-label=${`Disconnect ${name(e.target)}`} onClick=${() => edit({ ...canvas.value, edges: canvas.value.edges.filter((x) => x.id !== e.id) })}>✕</button></div>`)}
      <select aria-label="Connect to" value="" onChange=${(e) => {
        const next = connect(canvas.value, node.id, e.target.value);
        if (next === canvas.value && e.target.value) say("These two cannot be connected: it would make a loop.", true);
        else if (e.target.value) edit(next);
        e.target.value = "";
      }}><option value="">connect to…</option>${others.map((n) => html`<option key=${n.id} value=${n.id}>${n.name} (${n.kind})</option>`)}</select>
    </section>
    <button onClick=${() => { edit(removeNode(canvas.value, node.id)); chosen.value = null; }}>Remove</button>
  </aside>`;
}

function exportYaml() {
  const url = URL.createObjectURL(new Blob([dump(toBuilder(canvas.value))], { type: "application/yaml" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: "pipeline.yaml" });
  link.click();
  URL.revokeObjectURL(url);
}

async function importYaml(event) {
  const file = event.target.files[0];
  event.target.value = "";
  if (!file) return;
  try {
    const data = load(await file.text());
    const held = data?.builder ?? data;
    if (typeof held !== "object" || held === null) throw new Error("it holds no pipeline");
    let next = fromBuilder(held);
    if (data.json_data) next = withChain(next, { input_norm: data.json_data.input_norm ?? [], postprocess: data.json_data.postprocess ?? [] });
    if (!next.nodes.length) throw new Error("it holds no nodes");
    edit(next);
    chosen.value = null;
  } catch (error) {
    say(`${file.name}: ${error.message.split("\n")[0]}`, true);
  }
}

function Page() {
  const picker = useRef(null);
  return html`<div class="builder">
    <header class="head"><span class="mark"><img src="static/icon.svg" alt="" /><h1 class="mark">Pipeline builder</h1></span>
      <span class="path mono">${dataset.value?.path ?? ""}</span>
      <nav aria-label="Pages"><button onClick=${() => picker.current.click()}>Import YAML</button>
        <input ref=${picker} type="file" accept=".yaml,.yml" hidden aria-label="YAML file" onChange=${importYaml} />
        <button onClick=${exportYaml}>Export YAML</button><a class="button" href="./">Dashboard</a><${ThemeSwitch} /></nav></header>
    <${Palette} />
    <main class="canvas" aria-label="Canvas" tabindex="0"><div class="sheet"><${Edges} />${canvas.value.nodes.map((n) => html`<${Node} key=${n.id} node=${n} />`)}</div></main>
    <${Inspector} />
    <footer class=${`foot${status.value.bad ? " bad" : ""}`} role="status">${status.value.text}</footer>
  </div>`;
}

render(html`<${Page} />`, document.getElementById("app"));
