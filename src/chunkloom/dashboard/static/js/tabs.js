// Tabs by the WAI-ARIA pattern: arrows move between them.
import { html } from "./html.js";

export function Tabs({ tabs, chosen, onChoose }) {
  const keys = Object.keys(tabs);
  const onKey = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = event.key === "Home" ? 0 : event.key === "End" ? keys.length - 1 : by ? (keys.indexOf(chosen) + by + keys.length) % keys.length : -1;
    if (at < 0) return;
    event.preventDefault();
    onChoose(keys[at]);
    document.getElementById(`tab-${keys[at]}`)?.focus();
  };
  const Shown = tabs[chosen].content;
  return html`<div class="tabs" role="tablist" aria-label="Dashboard" onKeyDown=${onKey}>
      ${keys.map((key) => html`<button key=${key} id=${`tab-${key}`} role="tab" aria-selected=${key === chosen} aria-controls="panel"
        tabindex=${key === chosen ? 0 : -1} onClick=${() => onChoose(key)}>${tabs[key].title}</button>`)}
    </div>
    <div class="tab" id="panel" role="tabpanel" aria-labelledby=${`tab-${chosen}`} tabindex="0"><${Shown} /></div>`;
}
