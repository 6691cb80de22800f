// Preact with its templates bound: what every component imports.
import htm from "../vendor/htm.js";
import { h, render } from "../vendor/preact.js";

export const html = htm.bind(h);
export { h, render };
export { useEffect, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal, useSignal } from "../vendor/signals.js";
