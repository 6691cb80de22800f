/** The Model tab: a model and the chain around it, and the volume they make of the one that is open. */

import { size } from "./box.ts";
import { ChainForm } from "./chain.ts";
import type { ModelAsked, Provider } from "./messages.ts";
import { $, doing, settled, tidy } from "./page.ts";
import { change, client, now } from "./session.ts";

export const SAMPLE = "models/fibsem-membrane/model.json";

let files: ModelAsked["files"];
let made: () => void = () => {};

/** What happens when there is another computed volume. */
export function onComputed(action: () => void): void {
  made = action;
}

/** The chain form; the View tab borrows it. */
export const chainForm = new ChainForm($("chain"), () => {
  change({ chain: chainForm.value });
  if (now.computed) recompute();
});
const recompute = settled(300, () => void compute());

const kind = () => $<HTMLSelectElement>("model-kind").value as "sample" | "url" | "files" | "none";
const provider = () => $<HTMLSelectElement>("model-provider").value as Provider;

function asked(): ModelAsked | undefined {
  if (kind() === "none") return undefined;
  if (kind() === "files") {
    if (!files) throw new Error("choose the model's files: model.json and the weights that it names");
    return { files, provider: provider() };
  }
  const address = kind() === "sample" ? SAMPLE : $("model-url").value.trim();
  if (!address) throw new Error("give the address of a model.json");
  return { url: new URL(address, location.href).href, provider: provider() };
}

/** Loads the model and shows its chain, its own or (with a link's state) another. */
async function loadModel(keepChain: boolean): Promise<string> {
  const wanted = asked();
  now.model = wanted && (await client.call("model", wanted));
  const given = keepChain ? now.state.chain : undefined;
  chainForm.show(given ?? now.model?.chain ?? { input_norm: [], postprocess: [] }, !!now.model);
  const address = kind() === "sample" ? SAMPLE : kind() === "url" ? $("model-url").value.trim() : undefined;
  change({ model: address, chain: given, provider: provider() === "auto" ? undefined : provider() });
  $("model-found").textContent = now.model
    ? `${now.model.name}: ${now.model.channels.join(", ")}; tiles of ${now.model.outputShape.join(" × ")} voxels from ` +
      `${now.model.inputShape.join(" × ")}, made for voxels of ${now.model.voxelSize.map(tidy).join(" × ")} nm; ` +
      `runs on ${now.model.runsOn}`
    : "No model: the steps alone.";
  return now.model ? `model ${now.model.name} loaded` : "";
}

let turn = Promise.resolve(true);

/** Makes the computed volume. Calls wait for each other. */
export function compute(): Promise<boolean> {
  turn = turn.then(() =>
    doing("making the volume …", async () => {
      if (!now.raw) throw new Error("open data first, under Data");
      const chain = chainForm.value;
      if (!now.model && chain.postprocess.length === 0) throw new Error("choose a model, or add a step");
      now.computed = await client.call("computed", chain, asked());
      const { dtype, channels, levels, notes } = now.computed;
      $("computed-found").textContent =
        `Computed: ${dtype}, ${channels.length ? `${channels.join(" × ")} channel${channels[0] > 1 ? "s" : ""}` : "no channel axis"}, ` +
        `voxels of ${levels[0].voxelSize.map(tidy).join(" × ")} nm, chunks of ${levels[0].chunk.join(" × ")}`;
      $("computed-notes").textContent = notes.join("; ");
      made();
      return "ready: look at it under View, save a box under Run";
    }),
  );
  return turn;
}

/** Fills the form from the state, and computes what it says. */
export async function restoreModel(): Promise<void> {
  const { model, chain, provider: on } = now.state;
  $<HTMLSelectElement>("model-kind").value =
    model === SAMPLE ? "sample" : model ? "url" : chain ? "none" : "sample";
  $("model-url").value = model && model !== SAMPLE ? model : "";
  $<HTMLSelectElement>("model-provider").value = on ?? "auto";
  showKind();
  if (!model && !chain) return;
  if ((await doing("loading the model …", () => loadModel(true))) && now.raw) await compute();
}

function showKind(): void {
  for (const each of ["url", "files"]) $(`model-${each}-label`).hidden = kind() !== each;
}

/** Makes the tab work. */
export function startModel(): void {
  const choose = async () => {
    showKind();
    now.computed = undefined;
    if (kind() === "files" && !files) return;
    if (kind() === "url" && !$("model-url").value.trim()) return;
    await doing("loading the model …", () => loadModel(false));
  };
  for (const id of ["model-kind", "model-url", "model-provider"]) {
    $(id).addEventListener("change", () => void choose());
  }
  $("model-files").addEventListener("change", async () => {
    const read = await doing("reading the model …", async () => {
      const given = [...($("model-files").files ?? [])];
      const described = given.find((file) => file.name.endsWith(".json"));
      const weights = given.find((file) => !file.name.endsWith(".json"));
      if (!described || !weights) {
        throw new Error("choose two files together: model.json and the weights that it names");
      }
      let description: unknown;
      try {
        description = JSON.parse(await described.text());
      } catch {
        throw new Error(`${described.name} is not JSON; expected a model.json`);
      }
      files = { description, weights: new Uint8Array(await weights.arrayBuffer()) };
      return `model: ${weights.name}, ${size(weights.size)}`;
    });
    if (read) await choose();
  });
  $<HTMLFormElement>("model-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (kind() === "none" || now.model || (await doing("loading the model …", () => loadModel(false)))) {
      await compute();
    }
  });
}
