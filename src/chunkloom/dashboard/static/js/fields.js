// Form fields from JSON Schema: a slider where the range is known, a box, a choice, or text; each with its help.
import { html, useEffect, useRef, useState } from "./html.js";

const words = (name) => {
  const text = name.replaceAll("_", " ");
  return text[0].toUpperCase() + text.slice(1);
};
const types = (schema) => [schema.type ?? "string"].flat();
const optional = (schema) => types(schema).includes("null");

// What a text box holds, as the value the schema wants; undefined while it is none.
export function parsed(text, schema) {
  const trimmed = text.trim();
  if (trimmed === "") return optional(schema) ? null : types(schema).includes("string") ? "" : undefined;
  if (!types(schema).some((t) => t === "number" || t === "integer")) return text;
  const number = Number(trimmed);
  if (!Number.isFinite(number)) return undefined;
  if (types(schema).includes("integer") && !Number.isInteger(number)) return undefined;
  const tooLow = number < (schema.minimum ?? -Infinity) || number <= (schema.exclusiveMinimum ?? -Infinity);
  const tooHigh = number > (schema.maximum ?? Infinity) || number >= (schema.exclusiveMaximum ?? Infinity);
  return tooLow || tooHigh ? undefined : number;
}

// The ends of a slider: the schema's, or those the caller knows.
function ends(schema, known) {
  const low = schema.minimum ?? schema.exclusiveMinimum ?? known?.[0];
  const high = schema.maximum ?? schema.exclusiveMaximum ?? known?.[1];
  return low !== undefined && high !== undefined && low < high ? [low, high] : null;
}

export function Field({ name, schema, value, onChange, range, id }) {
  const shown = value ?? schema.default ?? "";
  const label = words(name);
  if (types(schema).includes("boolean")) {
    return html`<div class="field">
      <label class="row"><input type="checkbox" checked=${shown === true || shown === "True"}
        onChange=${(e) => onChange(e.target.checked)} /> ${label}</label>
      ${schema.description && html`<div class="help">${schema.description}</div>`}
    </div>`;
  }
  let control;
  if (schema.enum) {
    control = html`<select id=${id} value=${shown ?? ""} onChange=${(e) =>
      onChange(schema.enum.find((v) => String(v ?? "") === e.target.value) ?? null)}>
      ${schema.enum.map((v) => html`<option key=${v} value=${v ?? ""} selected=${v === shown}>${v ?? "none"}</option>`)}
    </select>`;
  } else if (types(schema).some((t) => t === "number" || t === "integer")) {
    control = html`<${NumberField} id=${id} label=${label} schema=${schema} value=${shown} range=${range} onChange=${onChange} />`;
  } else {
    control = html`<${TextField} id=${id} schema=${schema} value=${shown} onChange=${onChange} />`;
  }
  return html`<div class="field">
    <span class="name"><label for=${id}>${label}</label></span>
    ${control}
    ${schema.description && html`<div class="help">${schema.description}</div>`}
  </div>`;
}

function TextField({ id, schema, value, onChange }) {
  const [text, setText] = useState(String(value ?? ""));
  const focused = useRef(false);
  useEffect(() => {
    if (!focused.current) setText(String(value ?? ""));
  }, [value]);
  const take = (typed) => {
    setText(typed);
    const got = parsed(typed, schema);
    if (got !== undefined) onChange(got);
  };
  return html`<input id=${id} class=${parsed(text, schema) === undefined ? "wrong mono" : "mono"} value=${text}
    placeholder=${optional(schema) ? "from the data" : ""} spellcheck=${false} autocomplete="off"
    onFocus=${() => { focused.current = true; }}
    onBlur=${() => { focused.current = false; }}
    onInput=${(e) => take(e.target.value)} />`;
}

function NumberField({ id, label, schema, value, range, onChange }) {
  const between = ends(schema, range);
  const box = html`<${TextField} id=${id} schema=${schema} value=${value} onChange=${onChange} />`;
  if (!between || value === "" || value === null) return box;
  const whole = types(schema).includes("integer");
  const step = whole ? 1 : (between[1] - between[0]) / 200;
  return html`<div class="slide">
    <input type="range" aria-label=${`${label}, slider`} min=${between[0]} max=${between[1]} step=${step} value=${value}
      onInput=${(e) => onChange(whole ? Math.round(+e.target.value) : +(+e.target.value).toPrecision(4))} />
    ${box}
  </div>`;
}
