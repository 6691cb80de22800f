// The dashboard's page: data, chain and models on the left, Neuroglancer beside them, the log below.
import { html, render, useSignal } from "./html.js";
import { InputTab } from "./input.js";
import { LogPanel } from "./logpanel.js";
import { ModelsTab } from "./models.js";
import { OutputTab } from "./output.js";
import { boxViewer, dataset, listen, viewerUrl } from "./store.js";
import { Tabs } from "./tabs.js";
import { ThemeSwitch } from "./theme.js";

const Later = (what) => () => html`<p class="quiet">${what}</p>`;

const TABS = {
  input: { title: "Input", content: InputTab },
  output: { title: "Output", content: OutputTab },
  models: { title: "Models", content: ModelsTab },
  review: { title: "Review", content: Later("Going through the objects of a segmentation one by one, with verdicts, comes here.") },
  finetune: { title: "Finetune", content: Later("Painting corrections and training a model on them comes here.") },
};

function Viewer() {
  if (boxViewer.value) return html`<iframe key="boxes" src=${boxViewer.value} title="Neuroglancer, drawing boxes"></iframe>`;
  if (!viewerUrl.value) {
    return html`<div class="empty"><div><h2>Open a volume to begin</h2>
      <p>Type its path in the Input tab. What a model makes of it appears here, chunk by chunk, where you look.</p></div></div>`;
  }
  return html`<iframe key="view" src=${viewerUrl.value} title="Neuroglancer" allow="clipboard-write; fullscreen"></iframe>`;
}

function Page() {
  const tab = useSignal("input");
  return html`<div class="frame">
    <header class="head">
      <span class="mark"><img src="static/icon.svg" alt="" /><h1 class="mark">chunkloom</h1></span>
      <span class="path mono" title=${dataset.value?.path ?? ""}>${dataset.value?.path ?? ""}</span>
      <nav aria-label="Pages"><a class="button" href="pipeline-builder">Builder</a><${ThemeSwitch} /></nav>
    </header>
    <aside class="side" aria-label="Settings"><${Tabs} tabs=${TABS} chosen=${tab.value} onChoose=${(t) => { tab.value = t; }} /></aside>
    <main class="view" aria-label="Viewer"><${Viewer} /></main>
    <${LogPanel} />
  </div>`;
}

render(html`<${Page} />`, document.getElementById("app"));
listen();
