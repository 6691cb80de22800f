// The log drawer: the last line always, all of them when opened.
import { html, useEffect, useRef, useSignal } from "./html.js";
import { connected, logLines } from "./store.js";

export function LogPanel() {
  const open = useSignal(false);
  const box = useRef(null);
  const stick = useRef(true);
  const lines = logLines.value;
  useEffect(() => {
    if (box.current && stick.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, open.value]);
  const last = lines.at(-1);
  return html`<section class="log" aria-label="Log">
    <header>
      <button class="bare" aria-expanded=${open.value} aria-controls="log-lines" onClick=${() => { open.value = !open.value; }}>
        ${open.value ? "▾" : "▸"} Log</button>
      <span class=${`last small mono ${last?.level ?? ""}`} role="status">${connected.value ? (last?.text.split("\n")[0] ?? "") : "The dashboard does not answer; trying again…"}</span>
      ${open.value && html`<button class="bare" onClick=${() => { logLines.value = []; }}>Clear</button>`}
    </header>
    ${open.value && html`<div id="log-lines" class="lines mono" ref=${box} tabindex="0" role="log" aria-label="Log lines"
      onScroll=${(e) => { stick.current = e.target.scrollHeight - e.target.scrollTop - e.target.clientHeight < 40; }}>
      ${lines.map((line, i) => html`<div key=${i} class=${line.level}>${line.text}</div>`)}
    </div>`}
  </section>`;
}
