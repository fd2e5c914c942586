// The inspect screen: which classes are confused, which labels look wrong, what is in the model.

import { api } from "../core/api.js";
import { byId, el, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { confidence, count, number, percent } from "../core/text.js";
import { curve } from "../curve.js";
import { matrix } from "../matrix.js";
import { openDialog } from "../parts/dialogs.js";
import { ImageGrid } from "../parts/image_grid.js";
import { openViewer } from "../parts/image_viewer.js";
import { filters, neurons } from "../parts/model_inside.js";
import { predictionNote, suspiciousLabels } from "../parts/suspicious_labels.js";

/** @import { ClassScores, Curve, Inspection, WorkspaceImage } from "../core/types.js" */
/** @typedef {{title: string, json: string, element: HTMLElement}} Part */

let present = ""; // model and version that the screen shows
/** @type {Map<string, Part>} */
let parts = new Map(); // by title: only what differs is made again
/** @type {{classify: (image: WorkspaceImage) => void}} */
let options = { classify: () => {} };

/** @param {typeof options} given */
export function startInspect(given) {
  options = given;
  store.addEventListener("change", () => updateInspect());
}

/** Ask for the results if the screen is in view and they may have changed. */
export async function updateInspect() {
  const state = store.latest;
  if (!state || byId("screen-inspect").hidden) return;
  const wanted = `${state.model?.id} ${state.version}`;
  if (wanted === present) return;
  present = wanted;
  try {
    const inspection = await api.inspect();
    if (wanted === present) show(inspection);
    showMessage(byId("inspect-message"), "");
  } catch (error) {
    if (error.status === 409) {
      byId("inspect-parts").replaceChildren();
      parts = new Map();
      setText(byId("inspect-intro"), "");
      showMessage(byId("inspect-message"), error.message, "hint");
    } else {
      present = "";
      showMessage(byId("inspect-message"), error.message);
    }
  }
}

/** @param {Inspection} inspection */
function show(inspection) {
  const { classes, confusion, suspicious, pairs, per_class: scores, curve: learning } = inspection;
  const stale = store.state.model?.stale ? " Images have changed since: train again to see the new ones here." : "";
  const total = confusion.flat().reduce((sum, n) => sum + n, 0);
  setText(byId("inspect-intro"),
    `Validation: each of ${count(total, "image")} was predicted by a model that was trained without it.${stale}`);
  const { neurons: means } = inspection;
  const wanted = [
    { title: "Labels that look wrong", from: suspicious, make: () => suspiciousLabels(suspicious, options) },
    { title: "Confusion matrix", from: [classes, confusion], make: () => confusionMatrix(inspection) },
    { title: "The most confused pairs", from: pairs, half: true, make: () => confusedPairs(pairs) },
    { title: "Recall and precision", from: scores, half: true, make: () => classTable(scores) },
    { title: "Would more images help?", from: learning, half: true, make: () => learning && learningCurve(learning) },
    { title: "Filters", from: inspection.filters, half: true, make: () => filters(inspection.filters) },
    { title: "Neurons by class", from: means, make: () => means && neurons(means, classes) },
  ].filter(({ from }) => from);
  const place = byId("inspect-parts");
  const focused = place.contains(document.activeElement) ? document.activeElement?.getAttribute("data-cell") : null;
  parts = new Map(wanted.map(({ title, from, half, make }) => {
    const json = JSON.stringify(from);
    const old = parts.get(title);
    if (old?.json === json) return [title, old];
    const element = el("div", { class: half ? "card half" : "card" }, el("h2", {}, title), make());
    old?.element.replaceWith(element);
    return [title, { title, json, element }];
  }));
  const elements = [...parts.values()].map(({ element }) => element);
  if (elements.some((element, i) => place.children[i] !== element)) place.replaceChildren(...elements);
  // A cell drawn anew keeps the focus for people who work with the keyboard.
  if (focused && document.activeElement === document.body) place.querySelector(`[data-cell="${focused}"]`)?.focus();
}

/** @param {Inspection} inspection */
function confusionMatrix({ classes, confusion }) {
  return el("div", {},
    el("p", {}, "A row for each class, a column for each predicted class; the numbers are images. "
      + "Choose a cell to see them."),
    matrix(classes, confusion, (/** @type {number} */ i, /** @type {number} */ j) => openCell(classes[i], classes[j])),
    el("p", { class: "key" },
      el("span", { class: "swatch right" }), " correct ", el("span", { class: "swatch wrong" }),
      " predicted as another class; the stronger the colour, the larger the share of the row"));
}

/** The images behind a cell. @param {string} name @param {string} predicted */
function openCell(name, predicted) {
  const title = name === predicted ? `${name}, predicted correctly` : `${name} predicted as ${predicted}`;
  const message = el("p", { class: "message", role: "alert" });
  const note = el("p", { class: "key" });
  const grid = new ImageGrid({
    label: `Images of ${title}`,
    load: async (offset, limit) => {
      const page = await api.cell(name, predicted, offset, limit);
      setText(note, `${count(page.total, "image")}. Choose one to see it large, to move it to another class or to delete it.`);
      return page;
    },
    open: (index) => openViewer(grid, index, {
      note: predictionNote,
      classify: (image) => {
        dialog.close();
        options.classify(image);
      },
    }),
    minTile: 96,
    maxRows: 4,
    caption: ({ confidence: share = 0 }) => confidence(share),
    captionHeight: 22,
    failed: (text) => showMessage(message, text),
  });
  const { dialog } = openDialog(title, { body: [note, message, grid.element] });
  grid.refresh().then(() => grid.focus(0));
}

/** @param {Inspection["pairs"]} pairs */
function confusedPairs(pairs) {
  if (!pairs.length) return el("p", {}, "No image was predicted as another class.");
  const most = Math.max(...pairs.map(({ images }) => images));
  return el("ol", { class: "pairs" }, pairs.map(({ class: name, predicted, images, share }) =>
    el("li", {},
      el("button", { type: "button", onclick: () => openCell(name, predicted) },
        el("b", {}, name), " predicted as ", el("b", {}, predicted)),
      el("span", { class: "bar", "--part": images / most }),
      el("span", { class: "number" }, `${number(images)} (${percent(share)})`))));
}

/** @param {ClassScores[]} rows */
function classTable(rows) {
  const head = ["class", "images", "recall", "95 % interval", "precision"];
  const share = (/** @type {number | null} */ value) => (value === null ? "–" : percent(value, 1));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Recall and precision" },
    el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map((row) =>
        el("tr", {},
          el("th", { scope: "row" }, row.class),
          el("td", {}, number(row.images)),
          el("td", {}, share(row.recall)),
          el("td", {}, row.images ? `${percent(row.low)} to ${percent(row.high)}` : ""),
          el("td", {}, share(row.precision)))))));
}

/** @param {Curve} learning */
function learningCurve(learning) {
  const verdict = el("p", {}, learning.verdict);
  if (!learning.sizes.length) return verdict;
  const how = "Accuracy on validation quarters, trained on parts of the other images; lines: standard deviation over the quarters.";
  return el("div", {}, verdict, curve(learning), el("p", { class: "key" }, how));
}
