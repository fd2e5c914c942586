// How often the model is right, with its interval on a scale, as in the report.

import { el } from "./core/dom.js";
import { percent } from "./core/text.js";

export function accuracyShown({ value, low, high }) {
  return el("div", { class: "headline" },
    el("div", {},
      el("p", { class: "accuracy" }, percent(value, 1)),
      el("p", {}, "right on new images, 95 % interval ",
        el("b", {}, `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)} %`))),
    scale(value, low, high));
}

function scale(value, low, high) {
  const step = [0.02, 0.05, 0.1, 0.2].find((each) => low >= 1 - 5 * each - 1e-9) ?? 0.2;
  const steps = Math.ceil((1 - low) / step - 1e-9) || 1;
  const start = 1 - steps * step;
  const place = (share) => `${(100 * (share - start)) / (1 - start)}%`;
  const marks = Array.from({ length: steps + 1 }, (_, i) => {
    const level = start + i * step;
    return el("span", { "--at": place(level) }, `${Math.round(100 * level)} %`);
  });
  return el("div", { class: "scale", "aria-hidden": "true" },
    el("i", { "--from": place(low), "--to": place(high) }), el("b", { "--at": place(value) }), marks);
}
