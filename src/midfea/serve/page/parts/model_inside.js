// What is in the model: filters, and neurons by class.

import { el } from "../core/dom.js";
import { MANY } from "../matrix.js";
import { percent } from "../core/text.js";

const MAX_NEURONS = 40; // rows

/** @param {string[]} list of image addresses */
export function filters(list) {
  return el("div", {},
    el("p", {}, `${list.length} filters, learned from the images without their labels.`),
    el("div", { class: "filters" }, list.map((source, i) => el("img", { src: source, alt: `filter ${i + 1}` }))));
}

/**
 * @param {{means: number[][]}} neurons mean activation of each neuron for the images of each class
 * @param {string[]} classes
 */
export function neurons({ means }, classes) {
  const strongest = (/** @type {number[]} */ row) => row.indexOf(Math.max(...row));
  const rows = means.map((row, i) => ({ row, i, best: strongest(row) }));
  rows.sort((a, b) => a.best - b.best || b.row[b.best] - a.row[a.best]);
  const head = classes.map((name) => el("th", { scope: "col" }, el("span", {}, name)));
  const body = rows.slice(0, MAX_NEURONS).map(({ row, i }) =>
    el("tr", {}, el("th", { scope: "row" }, `neuron ${i + 1}`),
      row.map((value) => el("td", { class: "level", "--share": value.toFixed(2) }, percent(value)))));
  return el("div", {},
    el("p", {}, "Mean activation for the images of each class. A neuron that responds to one class alone is selective."),
    el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Neurons by class" },
      el("table", { class: classes.length >= MANY ? "matrix many" : "matrix" },
        el("thead", {}, el("tr", {}, el("td", {}), head)), el("tbody", {}, body))));
}
