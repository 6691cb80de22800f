// The Output tab: what is done to the model's output, and the session as a file.
import { get } from "./api.js";
import { ChainTab, change, freshStep, stepSchema } from "./chain.js";
import { html, signal, useEffect } from "./html.js";
import { chain, models } from "./store.js";

const advice = signal([]);
let asked = 0;

// Asked again a moment after the chain or the models changed.
function useAdvice() {
  const running = models.value.filter((m) => m.state === "running").length;
  useEffect(() => {
    const mine = ++asked;
    const timer = setTimeout(() => get("api/model_advice").then((a) => { if (mine === asked) advice.value = a.models; }, () => {}), 400);
    return () => clearTimeout(timer);
  }, [JSON.stringify(chain.value.postprocess), running]);
}

function suggested(review) {
  return review.suggest.map((name) => ({ ...freshStep(stepSchema("postprocess", name)), ...(review.params[name] ?? {}) }));
}

function Advice() {
  useAdvice();
  return advice.value.filter((a) => a.postprocess_review && a.postprocess_review.level !== "ok").map((a) => html`<div class="notice" key=${a.model} role="status">
    <p><strong>${a.model}</strong>: ${a.postprocess_review.message}</p>
    ${a.postprocess_review.suggest.length > 0 && html`<button onClick=${() => change("postprocess", suggested(a.postprocess_review))}>Use ${a.postprocess_review.suggest.join(", ")}</button>`}
  </div>`);
}

export function OutputTab() {
  return html`<div>
    <${Advice} />
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
