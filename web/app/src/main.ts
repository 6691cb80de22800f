/** The page: four tabs over one engine. What they show is in the address. */

import { onOpened, openData, startData } from "./data.ts";
import { chainForm, compute, onComputed, restoreModel, startModel } from "./model.ts";
import { $, say } from "./page.ts";
import { offerRun, onBox, onSaved, startRun } from "./run.ts";
import { base, change, client, now } from "./session.ts";
import { TABS, type Tab } from "./state.ts";
import { seen, showBox, showView, startView, viewer } from "./view.ts";

async function open(tab: Tab): Promise<void> {
  change({ tab });
  for (const name of TABS) {
    $(name).hidden = name !== tab;
    const button = $(`tab-${name}`);
    button.setAttribute("aria-selected", String(name === tab));
    button.tabIndex = name === tab ? 0 : -1;
  }
  // The chain's sliders are beside the view too: one form, where it is wanted.
  $(tab === "view" ? "view-chain" : "model-chain").append($("chain"));
  await seen(tab === "view");
  if (tab === "view") await showView();
  if (tab === "run") await offerRun();
}

/** What is in view, or offered, follows what is open. */
function follow(): void {
  void offerRun();
  if (now.state.tab === "view") void showView();
}

onOpened(() => {
  follow();
  if (now.model || chainForm.value.postprocess.length > 0) void compute();
});
onComputed(follow);
onSaved(follow);
onBox(() => void showBox());
startData();
startModel();
startView();
startRun();

for (const [i, name] of TABS.entries()) {
  const button = $(`tab-${name}`);
  button.addEventListener("click", () => void open(name));
  button.addEventListener("keydown", ({ key }) => {
    const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? TABS.length - 1 : 0;
    if (!step) return;
    const next = TABS[(i + step) % TABS.length];
    $(`tab-${next}`).focus();
    void open(next);
  });
}

async function start(): Promise<void> {
  const { tab, data, channel } = now.state;
  $("data-url").value = data ?? "";
  $("data-channel").value = channel === undefined ? "" : String(channel);
  await open(data ? "data" : tab);
  if (data) await openData({ url: data });
  await restoreModel();
  if (data) await open(tab);
}

base.catch((thrown: Error) => say(thrown.message, true));
void start();
// For those who look under the hood, and for tests.
Object.assign(window, { chunkloom: { client, viewer, now, base } });
