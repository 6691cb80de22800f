// The Input tab: which data, and what is done to it before the model sees it.
import { post } from "./api.js";
import { Boxes } from "./boxes.js";
import { ChainTab } from "./chain.js";
import { html, signal, useEffect, useRef } from "./html.js";
import { dataset, refresh } from "./store.js";

const opening = signal(false);
const error = signal("");

export async function openData(path) {
  opening.value = true;
  error.value = "";
  try {
    await post("api/set-data", { dataset_path: path });
    await refresh();
  } catch (e) {
    error.value = e.message;
  } finally {
    opening.value = false;
  }
}

const nm = (values) => `${values.map((v) => +v.toPrecision(6)).join(" × ")} nm`;

function Facts() {
  const d = dataset.value;
  if (!d) return html`<p class="quiet small">A folder, a file, or an address such as s3://bucket/cell.zarr/em. Zarr, N5, precomputed, HDF5 and TIFF are read.</p>`;
  return html`<dl class="facts">
    <dt>Shape</dt><dd>${d.shape.join(" × ")} (z, y, x)</dd>
    <dt>Voxel</dt><dd>${nm(d.voxel_size_nm)}</dd>
    <dt>Corner</dt><dd>${nm(d.corner_nm)}</dd>
    <dt>Values</dt><dd>${d.dtype}</dd>
    <dt>Levels</dt><dd>${d.levels}</dd>
  </dl>
  ${d.warnings.map((w) => html`<div class="notice" key=${w}>${w}</div>`)}`;
}

export function InputTab() {
  const box = useRef(null);
  useEffect(() => {
    if (box.current && dataset.value) box.current.value = dataset.value.path;
  }, [dataset.value?.path]);
  return html`<div>
    <section class="section" aria-label="Data">
      <header><h2>Data</h2></header>
      <form onSubmit=${(e) => { e.preventDefault(); openData(box.current.value); }}>
        <label class="field"><span class="name">Path or address</span>
          <input ref=${box} id="data-path" class="mono" spellcheck=${false} autocomplete="off" placeholder="/data/cell.zarr/em"
            defaultValue=${dataset.value?.path ?? ""} /></label>
        <div class="row spread">
          <button class="primary" disabled=${opening.value}>${opening.value ? "Opening…" : "Open"}</button>
          <button type="button" class="bare" onClick=${() => openData("synthetic://em")}>Try made-up EM</button>
        </div>
      </form>
      ${opening.value && html`<div class="progress" role="status" aria-label="Opening"></div>`}
      ${error.value && html`<div class="notice bad" role="alert">${error.value}</div>`}
    </section>
    <section class="section" aria-label="What was found"><${Facts} /></section>
    <${ChainTab} kind="input_norm" />
    <${Boxes} />
  </div>`;
}
