/** The Data tab: an address, a folder or an example opened, and what was found there. */

import { EXAMPLES } from "./examples.ts";
import type { Shown, Source } from "./messages.ts";
import { $, doing, element, tidy } from "./page.ts";
import { change, client, now } from "./session.ts";
import type { AppState } from "./state.ts";

let opened: () => void = () => {};

/** What happens when another volume is open. */
export function onOpened(action: () => void): void {
  opened = action;
}

/** What a person opens is looked at from where it begins; what a link opens, from where the link says. */
const ANEW: Partial<AppState> = { look: undefined, box: undefined };

/** Opens a volume. What was made of the one before is gone. `state` changes once it is open, and only then. */
export async function openData(from: Source, state: Partial<AppState> = {}): Promise<boolean> {
  const typed = $("data-channel").value.trim();
  const channel = typed === "" ? undefined : Number(typed);
  return doing("opening …", async () => {
    if (channel !== undefined && !(Number.isInteger(channel) && channel >= 0)) {
      throw new Error(`channel "${typed}": expected a whole number from 0, or nothing for all`);
    }
    now.raw = await client.call("open", from, channel === undefined ? {} : { c: channel });
    now.computed = undefined;
    now.saved = undefined;
    change({ data: "url" in from ? from.url : undefined, channel, ...state });
    showFound(now.raw);
    opened();
    return `found: ${now.raw.dtype}, ${now.raw.levels.length} level${now.raw.levels.length === 1 ? "" : "s"}`;
  });
}

function showFound(found: Shown): void {
  const table = $<HTMLTableElement>("data-found");
  const channels = found.channels.length ? `, ${found.channels.join(" × ")} channels` : "";
  const voxels = found.levels[0].shape.join(" × ");
  table.caption!.textContent = `${found.kind}, ${found.dtype}${channels}, ${voxels} voxels`;
  table.tBodies[0].replaceChildren(
    ...found.levels.map((level, i) => {
      const row = document.createElement("tr");
      row.insertCell().textContent = String(i);
      for (const three of [level.shape, level.voxelSize, level.corner, level.chunk]) {
        row.insertCell().textContent = three.map(tidy).join(", ");
      }
      return row;
    }),
  );
  $("data-result").hidden = false;
}

type Picker = { showDirectoryPicker?: (options: object) => Promise<FileSystemDirectoryHandle> };

/** Asks for a folder of this computer. */
export async function pickFolder(mode: "read" | "readwrite"): Promise<FileSystemDirectoryHandle> {
  const pick = (window as Picker).showDirectoryPicker;
  if (!pick) throw new Error("this browser cannot give a page a folder; Chrome and Edge can");
  return pick.call(window, { mode });
}

/** Makes the tab work. */
export function startData(): void {
  $<HTMLFormElement>("data-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void openData({ url: $("data-url").value.trim() }, ANEW);
  });
  $("data-folder").addEventListener("click", async () => {
    let folder: FileSystemDirectoryHandle | undefined;
    const chosen = await doing("choose a folder …", async () => {
      folder = await pickFolder("read");
      return "";
    });
    if (!chosen || !folder) return;
    await openData({ folder }, ANEW);
  });
  $("data-examples").append(
    ...EXAMPLES.map(({ name, url, from }) => {
      const button = element("button", { type: "button", textContent: name });
      button.addEventListener("click", () => {
        $("data-url").value = url;
        $<HTMLFormElement>("data-form").requestSubmit();
      });
      return element("li", {}, button, element("span", { className: "note", textContent: from }));
    }),
  );
}
