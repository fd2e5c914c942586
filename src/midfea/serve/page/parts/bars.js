// Names with bars and numbers: probabilities, activations.

import { el } from "../core/dom.js";

/**
 * @param {{name: string, share: number, text: string, kind?: string}[]} rows with shares from 0 to 1
 * @param {string} label
 */
export function bars(rows, label) {
  return el("ul", { class: "bars", "aria-label": label },
    rows.map(({ name, share, text, kind = "" }) =>
      el("li", { class: kind },
        el("span", { class: "name" }, name),
        el("span", { class: "track", "aria-hidden": "true" }, el("i", { "--part": Math.max(0, Math.min(1, share)) })),
        el("span", { class: "number" }, text))));
}
