// Files that were not taken, each with the reason.

import { el } from "./dom.js";
import { count } from "./words.js";

const SHOWN = 200;

export const refusal = (list) => `${count(list.length, "file was", "files were")} not taken:`;

export function refusedList(list) {
  const rows = list.slice(0, SHOWN).map(({ name, error }) => el("li", {}, el("b", {}, name), ` ${error}`));
  if (list.length > SHOWN) rows.push(el("li", {}, `and ${list.length - SHOWN} more`));
  // A list that scrolls must be reached by the keyboard.
  return el("ul", { class: "refused", tabindex: list.length > 4 ? 0 : null, "aria-label": "Files not taken" }, rows);
}
