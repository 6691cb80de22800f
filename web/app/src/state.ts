/** What the page shows, as data: it lives in the address, so that a link reproduces it. */

import type { OpData } from "@chunkloom/engine";
import type { ChainAsked, Provider } from "./messages.ts";

export type Tab = "data" | "model" | "view" | "run";
export const TABS: readonly Tab[] = ["data", "model", "view", "run"];

/** Where the viewer looks: its position, zoom and layout, as Neuroglancer writes them. */
export type Look = { readonly [member: string]: unknown };

/** The box of the Run tab, as it is typed. */
export interface BoxTyped {
  readonly lo: string;
  readonly hi: string;
  readonly unit: "voxels" | "nm";
}

export interface AppState {
  readonly tab: Tab;
  readonly data?: string;
  readonly channel?: number;
  /** Address of a `model.json`; relative to the page for the sample. */
  readonly model?: string;
  /** The chain in force, where it is not the model's own. */
  readonly chain?: ChainAsked;
  readonly provider?: Provider;
  readonly look?: Look;
  readonly box?: BoxTyped;
}

export const START: AppState = { tab: "data" };

/** The members of Neuroglancer's state that say where it looks. */
const LOOK = [
  "position",
  "crossSectionOrientation",
  "crossSectionScale",
  "crossSectionDepth",
  "projectionOrientation",
  "projectionScale",
  "layout",
];

/** Where a viewer's state looks. */
export function lookOf(viewerState: Look): Look {
  return Object.fromEntries(
    LOOK.filter((name) => name in viewerState).map((name) => [name, viewerState[name]]),
  );
}

/** The query of an address that holds the state. */
export function toQuery(state: AppState): string {
  return `?state=${encodeURIComponent(JSON.stringify(state))}`;
}

const isObject = (given: unknown): given is { readonly [member: string]: unknown } =>
  typeof given === "object" && given !== null && !Array.isArray(given);
const text = (given: unknown) => (typeof given === "string" && given !== "" ? given : undefined);

function steps(given: unknown): readonly OpData[] | undefined {
  const fits = Array.isArray(given) && given.every((step) => isObject(step) && typeof step.name === "string");
  return fits ? (given as OpData[]) : undefined;
}

function chain(given: unknown): ChainAsked | undefined {
  if (!isObject(given)) return undefined;
  const [before, after] = [steps(given.input_norm), steps(given.postprocess)];
  return before && after ? { input_norm: before, postprocess: after } : undefined;
}

function box(given: unknown): BoxTyped | undefined {
  if (!isObject(given)) return undefined;
  const [lo, hi] = [text(given.lo), text(given.hi)];
  return lo && hi ? { lo, hi, unit: given.unit === "nm" ? "nm" : "voxels" } : undefined;
}

/** The state of an address's query. What is not understood is left out. */
export function fromQuery(query: string): AppState {
  let given: unknown;
  try {
    given = JSON.parse(new URLSearchParams(query).get("state") ?? "{}");
  } catch {
    return START;
  }
  if (!isObject(given)) return START;
  const { tab, channel, provider, look } = given;
  return {
    tab: TABS.includes(tab as Tab) ? (tab as Tab) : START.tab,
    data: text(given.data),
    channel: typeof channel === "number" && Number.isInteger(channel) ? channel : undefined,
    model: text(given.model),
    chain: chain(given.chain),
    provider: provider === "wasm" || provider === "webgpu" ? provider : undefined,
    look: isObject(look) ? lookOf(look) : undefined,
    box: box(given.box),
  };
}
