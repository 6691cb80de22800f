/** A chain of steps as a form: a slider for each number, live. Knows nothing of what the steps compute. */

import type { OpData } from "@chunkloom/engine";
import type { ChainAsked } from "./messages.ts";
import { element } from "./page.ts";
import { FIELDS, type Field, newStep } from "./steps.ts";

type Part = keyof ChainAsked;
const TITLES: Record<Part, string> = { input_norm: "Before the model", postprocess: "After the model" };

/** A form of a chain in an element. `changed` is called whenever a person changed it. */
export class ChainForm {
  private chain: ChainAsked = { input_norm: [], postprocess: [] };
  private hasModel = false;
  private readonly root: HTMLElement;
  private readonly changed: () => void;

  constructor(root: HTMLElement, changed: () => void) {
    this.root = root;
    this.changed = changed;
    this.draw();
  }

  get value(): ChainAsked {
    return this.chain;
  }

  /** Shows a chain. Without a model there is one list, after which nothing comes. */
  show(chain: ChainAsked, hasModel: boolean): void {
    const all = [...chain.input_norm, ...chain.postprocess];
    this.chain = hasModel ? chain : { input_norm: [], postprocess: all };
    this.hasModel = hasModel;
    this.draw();
  }

  private set(part: Part, steps: readonly OpData[], redraw: boolean): void {
    this.chain = { ...this.chain, [part]: steps };
    if (redraw) this.draw();
    this.changed();
  }

  private draw(): void {
    const parts: Part[] = this.hasModel ? ["input_norm", "postprocess"] : ["postprocess"];
    this.root.replaceChildren(...parts.map((part) => this.drawPart(part)));
  }

  private drawPart(part: Part): HTMLElement {
    const steps = this.chain[part];
    const title = this.hasModel ? TITLES[part] : "Steps";
    const list = element(
      "ol",
      { className: "steps" },
      ...steps.map((step, i) => this.drawStep(part, step, i)),
    );
    const add = element("select", { ariaLabel: `Add a step: ${title.toLowerCase()}` });
    add.append(
      element("option", { value: "", textContent: "Add a step …" }),
      ...Object.keys(FIELDS).map((name) => element("option", { value: name, textContent: name })),
    );
    add.addEventListener("change", () => this.set(part, [...this.chain[part], newStep(add.value)], true));
    return element("section", { className: "chain-part" }, element("h3", { textContent: title }), list, add);
  }

  private drawStep(part: Part, step: OpData, i: number): HTMLElement {
    const put = (name: string, value: unknown) => {
      const steps = this.chain[part].map((each, k) => (k === i ? { ...each, [name]: value } : each));
      this.set(part, steps, false);
    };
    const remove = element("button", {
      type: "button",
      className: "quiet",
      textContent: "Remove",
      ariaLabel: `Remove ${step.name}`,
    });
    remove.addEventListener("click", () =>
      this.set(
        part,
        this.chain[part].filter((_, k) => k !== i),
        true,
      ),
    );
    const head = element("div", { className: "step-head" }, element("b", { textContent: step.name }), remove);
    // A parameter that the form does not know is kept, and shown as text.
    const known = FIELDS[step.name] ?? [];
    const others = Object.keys(step)
      .filter((name) => name !== "name" && !known.some((field) => field.name === name))
      .map((name): Field => ({ kind: "text", name, start: "" }));
    return element(
      "li",
      {},
      head,
      ...[...known, ...others].map((f) => drawField(f, step[f.name] ?? f.start, put)),
    );
  }
}

/** What was typed where something other than text was: such as a list of numbers. */
function typed(text: string, before: unknown): unknown {
  if (typeof before === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // refused by the engine, in words
  }
}

function drawField(field: Field, value: unknown, put: (name: string, value: unknown) => void): HTMLElement {
  const name = field.name.replaceAll("_", " ");
  const label = element("label", { className: "field" }, element("span", { textContent: name }));
  if (field.kind === "flag") {
    const box = element("input", { type: "checkbox", checked: value === true });
    box.addEventListener("input", () => put(field.name, box.checked));
    label.append(box);
  } else if (field.kind === "choice") {
    const select = element("select");
    select.append(...field.choices.map((choice) => element("option", { textContent: choice })));
    select.value = String(value);
    select.addEventListener("input", () => put(field.name, select.value));
    label.append(select);
  } else if (field.kind === "text" || typeof value !== "number") {
    const input = element("input", { value: typeof value === "string" ? value : JSON.stringify(value) });
    input.addEventListener("change", () => put(field.name, typed(input.value, value)));
    label.append(input);
  } else {
    const [low, high] = field.range;
    const now = value;
    const range = element("input", {
      type: "range",
      min: String(Math.min(low, now)),
      max: String(Math.max(high, now)),
      step: String(field.step),
      value: String(value),
      ariaLabel: `${name}, slider`,
    });
    const exact = element("input", { type: "number", step: "any", value: String(value), className: "exact" });
    range.addEventListener("input", () => {
      exact.value = range.value;
      put(field.name, Number(range.value));
    });
    exact.addEventListener("input", () => {
      if (exact.value === "") return;
      range.value = exact.value;
      put(field.name, Number(exact.value));
    });
    label.append(range, exact);
  }
  return label;
}
