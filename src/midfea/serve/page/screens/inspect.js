// The inspect screen: which classes are confused, where the model disagrees, what is in the model.

import { api } from "../core/api.js";
import { byId, el, fromHtml, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { confidence, count } from "../core/text.js";
import { DisagreementReview, predictionNote } from "../parts/disagreements.js";
import { openDialog } from "../parts/dialogs.js";
import { ImageGrid } from "../parts/image_grid.js";
import { openViewer } from "../parts/image_viewer.js";

/** @import { Inspection, WorkspaceImage } from "../core/types.js" */
/** @typedef {{title: string, json: string, element: HTMLElement}} Part */

let present = ""; // model and version that the screen shows
/** @type {Map<string, Part>} */
let parts = new Map(); // by title: only what differs is made again
/** @type {string[]} */
let classes = []; // of the confusion matrix that the screen shows
/** @type {{classify: (image: WorkspaceImage) => void}} */
let options = { classify: () => {} };
const review = new DisagreementReview({ classify: (image) => options.classify(image) });

/** @param {typeof options} given */
export function startInspect(given) {
  options = given;
  store.addEventListener("change", () => updateInspect());
  byId("inspect-parts").addEventListener("click", (/** @type {any} */ event) => {
    const cell = event.target.closest("button[data-cell]")?.dataset.cell;
    if (!cell) return;
    const [row, column] = cell.split("-").map(Number);
    openCell(classes[row], classes[column]);
  });
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
      showMessage(byId("inspect-changed"), "");
      showMessage(byId("inspect-message"), error.message, "hint");
    } else {
      present = "";
      showMessage(byId("inspect-message"), error.message);
    }
  }
}

/** @param {Inspection} inspection */
function show(inspection) {
  const { confusion, disagreements, parts: html } = inspection;
  classes = inspection.classes;
  const total = confusion.flat().reduce((sum, n) => sum + n, 0);
  setText(byId("inspect-intro"),
    `Validation: each of ${count(total, "image")} was predicted by a model that was trained without it.`);
  showMessage(byId("inspect-changed"), changesSince(inspection), "hint");
  review.update(disagreements);
  const wanted = [
    { title: "Where the model disagrees", from: "review", make: () => review.element },
    { title: "Confusion matrix", from: html.confusion },
    { title: "The most confused pairs", from: html.pairs, half: true },
    { title: "Recall and precision", from: html.per_class, half: true },
    { title: "What can be decided", from: html.decisions },
    { title: "Would more images help?", from: html.curve, half: true },
    { title: "Filters", from: html.filters, half: true },
    { title: "Neurons by class", from: html.neurons },
  ].filter(({ from }) => from);
  const place = byId("inspect-parts");
  const focused = place.contains(document.activeElement) ? document.activeElement?.getAttribute("data-cell") : null;
  parts = new Map(wanted.map(({ title, from, half, make = () => fromHtml(String(from)) }) => {
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

/** What is not in the numbers, because it came after the training. @param {Inspection} inspection */
function changesSince({ changed, gone }) {
  const facts = [];
  if (changed) facts.push(count(changed, "label has changed", "labels have changed"));
  if (gone) facts.push(count(gone, "image is gone", "images are gone"));
  if (facts.length) return `${facts.join(" and ")} since. The numbers here are those of the training: train again.`;
  return store.state.model?.stale ? "Images have been added since: train again to see them here." : "";
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
