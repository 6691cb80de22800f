/** What the tabs share: the engine, what is open, and the state that the address holds. */

import { EngineClient, virtualBase } from "./client.ts";
import type { ModelShown, Shown } from "./messages.ts";
import { type AppState, fromQuery, toQuery } from "./state.ts";

export const client = new EngineClient();

/** Where the viewer finds the engine's volumes, once the service worker runs. */
export const base = virtualBase(client);

/** What is open now. */
export const now: {
  state: AppState;
  raw?: Shown;
  model?: ModelShown;
  computed?: Shown;
  saved?: Shown;
} = { state: fromQuery(location.search) };

/** Changes the state, and the address with it. */
export function change(more: Partial<AppState>): void {
  now.state = { ...now.state, ...more };
  history.replaceState(null, "", toQuery(now.state));
}
