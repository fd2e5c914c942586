// The confusion matrix: every cell that holds images is a button.

import { el } from "./core/dom.js";
import { number } from "./core/text.js";

export const MANY = 14; // classes: from here on column names are turned, and cells are small

/** open(row, column): a cell was chosen. */
export function matrix(classes, counts, open) {
  const head = classes.map((name) => el("th", { scope: "col" }, el("span", {}, name)));
  const rows = classes.map((name, i) => {
    const total = Math.max(1, counts[i].reduce((sum, n) => sum + n, 0));
    const cells = classes.map((told, j) => {
      const n = counts[i][j];
      if (!n) return el("td", {});
      const right = i === j;
      const label = right ? `${number(n)} of ${name} told rightly` : `${number(n)} of ${name} taken for ${told}`;
      return el("td", {}, el("button", {
        type: "button", class: right ? "right" : "wrong", "--share": (n / total).toFixed(2), "data-cell": `${i}-${j}`,
        "aria-label": label, title: label, onclick: () => open(i, j),
      }, number(n)));
    });
    return el("tr", {}, el("th", { scope: "row" }, name), cells);
  });
  const table = el("table", { class: classes.length >= MANY ? "matrix many" : "matrix" },
    el("thead", {}, el("tr", {}, el("td", { class: "corner" }, "is \\ told"), head)), el("tbody", {}, rows));
  table.addEventListener("keydown", (event) => walk(event, table, classes.length));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Confusion matrix" }, table);
}

/** Arrow keys go from one cell that holds images to the next. */
function walk(event, table, size) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  const button = event.target.closest("button[data-cell]");
  if (!step || !button) return;
  event.preventDefault();
  let [row, column] = button.dataset.cell.split("-").map(Number);
  for (;;) {
    row += step[0];
    column += step[1];
    if (row < 0 || column < 0 || row >= size || column >= size) return;
    const next = table.querySelector(`button[data-cell="${row}-${column}"]`);
    if (next) return next.focus();
  }
}
