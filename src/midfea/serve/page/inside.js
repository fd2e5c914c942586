// What is inside the model: filters, and neurons by class.

import { el } from "./dom.js";
import { MANY } from "./matrix.js";
import { percent } from "./words.js";

const N_NEURONS = 40; // rows at most

export function filters(list) {
  return el("div", {},
    el("p", {}, `${list.length} filters, learned from the images without their labels.`),
    el("div", { class: "filters" }, list.map((source, i) => el("img", { src: source, alt: `filter ${i + 1}` }))));
}

/** means[neuron][class]: how strongly a neuron fires for the images of a class. */
export function neurons({ means }, classes) {
  const serves = (row) => row.indexOf(Math.max(...row));
  const rows = means.map((row, i) => ({ row, i, best: serves(row) }));
  rows.sort((a, b) => a.best - b.best || b.row[b.best] - a.row[a.best]);
  const head = classes.map((name) => el("th", { scope: "col" }, el("span", {}, name)));
  const body = rows.slice(0, N_NEURONS).map(({ row, i }) =>
    el("tr", {}, el("th", { scope: "row" }, `neuron ${i + 1}`),
      row.map((value) => el("td", { class: "level", "--share": value.toFixed(2) }, percent(value)))));
  return el("div", {},
    el("p", {}, "Mean activation for the images of each class. A neuron that serves one class alone is selective."),
    el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Neurons by class" },
      el("table", { class: classes.length >= MANY ? "matrix many" : "matrix" },
        el("thead", {}, el("tr", {}, el("td", {}), head)), el("tbody", {}, body))));
}
