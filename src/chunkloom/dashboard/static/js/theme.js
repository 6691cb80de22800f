// Dark or light: as the system says until the person chooses.
import { html, signal } from "./html.js";

const KEY = "chunkloom-theme";
const system = matchMedia("(prefers-color-scheme: light)");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const theme = signal(stored() ?? (system.matches ? "light" : "dark"));
document.documentElement.dataset.theme = theme.value;

function choose(name) {
  theme.value = name;
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // A browser that keeps nothing still shows the choice.
  }
}

export function ThemeSwitch() {
  const other = theme.value === "dark" ? "light" : "dark";
  return html`<button class="bare" onClick=${() => choose(other)} title=${`Use the ${other} theme`}>
    ${theme.value === "dark" ? "Light" : "Dark"}
  </button>`;
}
