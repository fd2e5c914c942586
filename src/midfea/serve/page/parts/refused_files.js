// Files that were refused, each with the reason.

import { el } from "../core/dom.js";
import { count } from "../core/text.js";

/** @import { Refusal } from "../core/types.js" */

const MAX_LISTED = 200;
const MAX_WITHOUT_SCROLLING = 4;

/** @param {Refusal[]} refused */
export const refusedTitle = (refused) => `${count(refused.length, "file was", "files were")} refused:`;

/** @param {Refusal[]} refused */
export function refusedList(refused) {
  const rows = refused.slice(0, MAX_LISTED).map(({ name, error }) => el("li", {}, el("b", {}, name), ` ${error}`));
  if (refused.length > MAX_LISTED) rows.push(el("li", {}, `and ${refused.length - MAX_LISTED} more`));
  // A list that scrolls must be reached by the keyboard.
  const tabindex = refused.length > MAX_WITHOUT_SCROLLING ? 0 : null;
  return el("ul", { class: "refused", tabindex, "aria-label": "Refused files" }, rows);
}
