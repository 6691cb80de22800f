// The Output tab: what is done to the model's output, and the session as a file.
import { ChainTab } from "./chain.js";
import { html } from "./html.js";

export function OutputTab() {
  return html`<div>
    <${ChainTab} kind="postprocess" />
    <section class="section" aria-label="Session">
      <header><h2>This session</h2></header>
      <p class="quiet small">Data, models and chain as one file. <code>chunkloom yaml session.yaml</code> opens it again, here or at a colleague's.</p>
      <div class="row">
        <a class="button" href="api/export-config" download="session.yaml">Save as YAML</a>
        <a class="button" href="pipeline-builder">Open the builder</a>
      </div>
    </section>
  </div>`;
}
