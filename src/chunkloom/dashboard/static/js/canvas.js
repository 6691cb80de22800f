// The builder's canvas as data: nodes, edges, and the chain they say. Knows no page.
//
// A node is {id, kind, name, params, x, y}. The order of steps follows the edges; steps without edges follow by place.

export const KINDS = ["input", "normalizer", "model", "postprocessor", "output", "blockwise"];
// A row for each kind, from the data above to the result below.
const ROW = { input: 24, normalizer: 140, model: 256, postprocessor: 372, output: 488, blockwise: 488 };
const LISTS = { input: "inputs", normalizer: "normalizers", model: "models", postprocessor: "postprocessors", output: "outputs" };
const STEP = 214;

let counter = 0;
export const newId = (kind) => `${kind}-${Date.now().toString(36)}-${(counter++).toString(36)}`;

export function place(nodes, kind) {
  const beside = nodes.filter((n) => n.y === ROW[kind]).map((n) => n.x + STEP);
  return { x: Math.max(24, ...beside), y: ROW[kind] };
}

export function addNode(canvas, kind, name, params = {}) {
  const node = { id: newId(kind), kind, name, params, ...place(canvas.nodes, kind) };
  return { canvas: { ...canvas, nodes: [...canvas.nodes, node] }, node };
}

export const updateNode = (canvas, id, change) => ({
  ...canvas,
  nodes: canvas.nodes.map((n) => (n.id === id ? { ...n, ...change } : n)),
});

export const removeNode = (canvas, id) => ({
  nodes: canvas.nodes.filter((n) => n.id !== id),
  edges: canvas.edges.filter((e) => e.source !== id && e.target !== id),
});

// An edge to a node that leads back to its start would have no order.
export function connect(canvas, source, target) {
  const there = canvas.edges.some((e) => e.source === source && e.target === target);
  if (source === target || there || reaches(canvas.edges, target, source)) return canvas;
  return { ...canvas, edges: [...canvas.edges, { id: newId("edge"), source, target }] };
}

function reaches(edges, from, to) {
  const seen = new Set();
  const open = [from];
  while (open.length) {
    const at = open.pop();
    if (at === to) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    for (const edge of edges) if (edge.source === at) open.push(edge.target);
  }
  return false;
}

// Nodes of a kind in the order of the edges, then of their places.
export function ordered(canvas, kind) {
  const before = (a, b) => reaches(canvas.edges, a.id, b.id);
  const rest = canvas.nodes.filter((n) => n.kind === kind).sort((a, b) => a.x - b.x || a.y - b.y);
  const done = [];
  while (rest.length) {
    const next = rest.findIndex((n) => !rest.some((other) => other !== n && before(other, n)));
    done.push(...rest.splice(Math.max(0, next), 1));
  }
  return done;
}

// The way of the data where no edge says it: from the last node of a kind to the first of the next that there is.
export function implied(canvas) {
  const groups = ["input", "normalizer", "model", "postprocessor", "output"].map((kind) => ordered(canvas, kind)).filter((g) => g.length);
  const pairs = [];
  for (let i = 1; i < groups.length; i++) {
    const models = groups[i - 1][0].kind === "model" ? groups[i - 1] : [groups[i - 1].at(-1)];
    const next = groups[i][0].kind === "model" ? groups[i] : [groups[i][0]];
    for (const a of models) for (const b of next) pairs.push([a, b]);
  }
  for (const group of groups) {
    if (["normalizer", "postprocessor"].includes(group[0].kind)) for (let i = 1; i < group.length; i++) pairs.push([group[i - 1], group[i]]);
  }
  const said = (a, b) => canvas.edges.some((e) => e.source === a.id && e.target === b.id);
  return pairs.filter(([a, b]) => !said(a, b)).map(([a, b]) => ({ id: `${a.id}>${b.id}`, source: a.id, target: b.id }));
}

const step = (node) => ({ ...node.params, name: node.name });
export const chainOf = (canvas) => ({
  input_norm: ordered(canvas, "normalizer").map(step),
  postprocess: ordered(canvas, "postprocessor").map(step),
});

// What the server keeps, and what a file holds: lists by kind, every key of a node kept.
export function toBuilder(canvas) {
  const out = { edges: canvas.edges };
  for (const kind of Object.keys(LISTS)) {
    out[LISTS[kind]] = ordered(canvas, kind).map((n) => ({
      id: n.id,
      name: n.name,
      ...(kind === "input" || kind === "output" ? n.params : { params: n.params }),
      position: { x: n.x, y: n.y },
    }));
  }
  const blockwise = canvas.nodes.find((n) => n.kind === "blockwise");
  if (blockwise) out.blockwise_config = { id: blockwise.id, ...blockwise.params, position: { x: blockwise.x, y: blockwise.y } };
  return out;
}

function fromEntry(kind, entry, nodes) {
  const { id, name, params, position, ...rest } = entry;
  const at = position && Number.isFinite(position.x) && Number.isFinite(position.y) ? { x: position.x, y: position.y } : place(nodes, kind);
  return { id: id ?? newId(kind), kind, name: name ?? kind, params: params ?? rest, ...at };
}

export function fromBuilder(builder) {
  const nodes = [];
  for (const kind of Object.keys(LISTS)) {
    for (const entry of builder?.[LISTS[kind]] ?? []) nodes.push(fromEntry(kind, entry, nodes));
  }
  if (builder?.blockwise_config) nodes.push(fromEntry("blockwise", { name: "blockwise", ...builder.blockwise_config }, nodes));
  const known = new Set(nodes.map((n) => n.id));
  const edges = (builder?.edges ?? []).filter((e) => known.has(e.source) && known.has(e.target)).map((e) => ({ ...e, id: e.id ?? newId("edge") }));
  return { nodes, edges };
}

// The canvas as kept, with the steps of the live chain: steps that are on it keep their places and edges.
export function withChain(canvas, chain) {
  let out = canvas;
  for (const [kind, steps] of [["normalizer", chain.input_norm], ["postprocessor", chain.postprocess]]) {
    const now = ordered(out, kind);
    const same = now.length === steps.length && now.every((n, i) => n.name === steps[i].name);
    if (same) {
      now.forEach((n, i) => {
        const { name: _, ...params } = steps[i];
        out = updateNode(out, n.id, { params });
      });
      continue;
    }
    for (const n of now) out = removeNode(out, n.id);
    let last = null;
    for (const { name, ...params } of steps) {
      const made = addNode(out, kind, name, params);
      out = last ? connect(made.canvas, last.id, made.node.id) : made.canvas;
      last = made.node;
    }
  }
  return out;
}
