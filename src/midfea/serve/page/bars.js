// Names with bars and numbers: probabilities, activations.

import { el } from "./dom.js";

/** rows: [{name, share: 0 to 1, told, kind}] */
export function bars(rows, label) {
  return el("ul", { class: "bars", "aria-label": label },
    rows.map(({ name, share, told, kind = "" }) =>
      el("li", { class: kind },
        el("span", { class: "name" }, name),
        el("span", { class: "track", "aria-hidden": "true" }, el("i", { "--part": Math.max(0, Math.min(1, share)) })),
        el("span", { class: "number" }, told))));
}
