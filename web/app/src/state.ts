/** What the page shows, as data: it lives in the address, so that a link reproduces it. */

import type { OpData } from "@chunkloom/engine";

export interface AppState {
  readonly tab: "data" | "model" | "view" | "run";
  readonly data?: string;
  readonly channel?: number;
  readonly model?: string;
  readonly ops: readonly OpData[];
  readonly threshold: number;
}

const TABS = ["data", "model", "view", "run"];

export const START: AppState = { tab: "data", ops: [], threshold: 0 };

/** The query of an address that holds the state. (The hash is Neuroglancer's.) */
export function toQuery(state: AppState): string {
  return `?state=${encodeURIComponent(JSON.stringify(state))}`;
}

/** The state of an address's query. What is not understood is left out. */
export function fromQuery(query: string): AppState {
  try {
    const given = JSON.parse(new URLSearchParams(query).get("state") ?? "{}") as Partial<AppState>;
    return {
      tab: TABS.includes(given.tab ?? "") ? given.tab! : START.tab,
      data: typeof given.data === "string" ? given.data : undefined,
      channel: typeof given.channel === "number" ? given.channel : undefined,
      model: typeof given.model === "string" ? given.model : undefined,
      ops: Array.isArray(given.ops) ? given.ops : [],
      threshold: typeof given.threshold === "number" ? given.threshold : 0,
    };
  } catch {
    return START;
  }
}
