// The inspect screen: which classes are taken for which, which labels look wrong, what is inside.

import { api } from "./api.js";
import { curve } from "./curve.js";
import { openDialog } from "./dialogs.js";
import { byId, el, say, tell } from "./dom.js";
import { ImageGrid } from "./grid.js";
import { filters, neurons } from "./inside.js";
import { matrix } from "./matrix.js";
import { store } from "./state.js";
import { suspicious } from "./suspicious.js";
import { openViewer } from "./viewer.js";
import { count, number, percent, sure } from "./words.js";

let seen = ""; // model and version that are shown
let shown = new Map(); // title to what it was made from, so that only what differs is made again
let options = {};

export function startInspect(given) {
  options = given;
  store.addEventListener("change", () => updateInspect());
}

/** Ask for the results if the screen is in view and they may have changed. */
export async function updateInspect() {
  const { state } = store;
  if (!state || byId("screen-inspect").hidden) return;
  const now = `${state.model?.id} ${state.version}`;
  if (now === seen) return;
  seen = now;
  try {
    const found = await api.inspect();
    if (now === seen) show(found);
    tell(byId("inspect-message"), "");
  } catch (error) {
    if (error.status === 409) {
      byId("inspect-parts").replaceChildren();
      shown = new Map();
      say(byId("inspect-intro"), "");
      tell(byId("inspect-message"), error.message, "hint");
    } else {
      seen = "";
      tell(byId("inspect-message"), error.message);
    }
  }
}

function show(found) {
  const { model } = store.state;
  const stale = model?.stale ? " Images have changed since: train again to see the new ones here." : "";
  const total = found.confusion.flat().reduce((sum, n) => sum + n, 0);
  say(byId("inspect-intro"), `Each of ${count(total, "image")} was told by a model that had not learned from it.${stale}`);
  const parts = [
    { title: "Labels that look wrong", of: found.suspicious, make: () => suspicious(found.suspicious, options) },
    { title: "Which classes are taken for which", of: [found.classes, found.confusion], make: () => confusion(found) },
    { title: "The most confused pairs", of: found.pairs, half: true, make: () => pairs(found.pairs) },
    { title: "Class by class", of: found.per_class, half: true, make: () => classTable(found.per_class) },
    { title: "Would more images help?", of: found.curve, half: true, make: () => learningCurve(found.curve) },
    { title: "What it looks for", of: found.filters, half: true, make: () => filters(found.filters) },
    { title: "Which neurons fire for which class", of: found.neurons, make: () => neurons(found.neurons, found.classes) },
  ].filter((part) => part.of);
  const place = byId("inspect-parts");
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.cell : null;
  const wanted = parts.map(({ title, of, half, make }) => {
    const made = JSON.stringify(of);
    const old = shown.get(title);
    if (old?.made === made) return old;
    const fresh = { title, made, element: el("div", { class: half ? "card half" : "card" }, el("h2", {}, title), make()) };
    old?.element.replaceWith(fresh.element);
    return fresh;
  });
  shown = new Map(wanted.map((each) => [each.title, each]));
  const elements = wanted.map((each) => each.element);
  if (elements.some((each, i) => place.children[i] !== each)) place.replaceChildren(...elements);
  // A cell drawn anew keeps the focus: who works with the keyboard goes on from there.
  if (focused && document.activeElement === document.body) place.querySelector(`[data-cell="${focused}"]`)?.focus();
}

function confusion(found) {
  return el("div", {},
    el("p", {}, "A row for each class of images, a column for each answer; the numbers are images. "
      + "Choose a cell to see them."),
    matrix(found.classes, found.confusion, (i, j) => openCell(found.classes[i], found.classes[j])),
    el("p", { class: "key" },
      el("span", { class: "swatch right" }), " told rightly ", el("span", { class: "swatch wrong" }),
      " taken for another class; the stronger the colour, the larger the share of the row"));
}

/** The images behind a cell. */
function openCell(name, answer) {
  const right = name === answer;
  const message = el("p", { class: "message", role: "alert" });
  const note = el("p", { class: "key" });
  const grid = new ImageGrid({
    label: right ? `Images of ${name} told rightly` : `Images of ${name} taken for ${answer}`,
    load: async (offset, limit) => {
      const page = await api.cell(name, answer, offset, limit);
      say(note, `${count(page.total, "image")}. Choose one to see it large, to move it to another class or to delete it.`);
      return page;
    },
    open: (index) => openViewer(grid, index, {
      note: (image) => `Told ${image.answer}, ${sure(image.probability)} sure.`,
      classify: (image) => {
        dialog.close();
        options.classify(image);
      },
    }),
    tile: 96,
    rows: 4,
    caption: (image) => `${sure(image.probability)} sure`,
    below: 22,
    failed: (text) => tell(message, text),
  });
  const title = right ? `${name}, told rightly` : `${name} taken for ${answer}`;
  const { dialog } = openDialog(title, { body: [note, message, grid.element] });
  grid.refresh().then(() => grid.focus(0));
}

function pairs(list) {
  if (!list.length) return el("p", {}, "No image was taken for another class.");
  const widest = Math.max(...list.map((each) => each.images));
  return el("ol", { class: "pairs" }, list.map((each) =>
    el("li", {},
      el("button", { type: "button", onclick: () => openCell(each.class, each.answer) },
        el("b", {}, each.class), " taken for ", el("b", {}, each.answer)),
      el("span", { class: "bar", "--part": each.images / widest }),
      el("span", { class: "number" }, `${number(each.images)} (${percent(each.share)})`))));
}

function classTable(rows) {
  const head = ["class", "images", "told rightly", "95 % interval", "right when told"];
  const share = (value) => (value === null || value === undefined ? "–" : percent(value, 1));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Class by class" },
    el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map((row) =>
        el("tr", {},
          el("th", { scope: "row" }, row.class),
          el("td", {}, number(row.images)),
          el("td", {}, share(row.accuracy)),
          el("td", {}, row.images ? `${percent(row.low)} to ${percent(row.high)}` : ""),
          el("td", {}, share(row.precision)))))));
}

function learningCurve(found) {
  const verdict = el("p", {}, found.verdict);
  if (!found.sizes?.length) return verdict;
  const how = "Accuracy on quarters held out in turn, learned from parts of the rest; lines: deviation over the quarters.";
  return el("div", {}, verdict, curve(found), el("p", { class: "key" }, how));
}
