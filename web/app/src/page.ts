/** The page's elements, and what it says. */

/** The element of an id. */
export const $ = <T extends HTMLElement = HTMLInputElement>(id: string) => document.getElementById(id) as T;

/** Says something in the line that is always in view. */
export function say(words: string, bad = false): void {
  const line = $("message");
  line.textContent = words;
  line.title = words;
  line.classList.toggle("bad", bad);
}

/** Runs an action; what goes wrong is said on screen. Gives whether it went well. */
export async function doing(words: string, action: () => Promise<string>): Promise<boolean> {
  say(words);
  document.body.setAttribute("aria-busy", "true");
  try {
    say(await action());
    return true;
  } catch (thrown) {
    const { name, message } = thrown as Error;
    say(name === "AbortError" ? "cancelled" : message, true);
    return false;
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

/** A new element with properties and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** A number as people write it: 4.6, not 4.6000000001. */
export const tidy = (n: number) => String(Number(n.toPrecision(9)));

/** The last call within `ms`, and no other. */
export function settled(ms: number, action: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}
