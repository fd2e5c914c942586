// The classify screen: images in, predictions out, the newest first.

import { isImage } from "../core/class_folders.js";
import { byId, onFiles, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { count, number, percent, shortList } from "../core/text.js";
import { openCamera } from "../parts/camera.js";
import { makeDropZone } from "../parts/drop_zone.js";
import { PredictionCard } from "../parts/prediction_card.js";

/** @import { Question } from "../core/types.js" */

const MAX_REQUESTS = 2; // at a time
const PAGE_SIZE = 24; // cards, before "show more"
const MAX_WITH_EVIDENCE = 24; // images; with more, evidence is asked for one by one
const THRESHOLD_KEY = "midfea-threshold"; // in the storage of this browser

/** @type {PredictionCard[]} */
let cards = []; // the newest first
/** @type {{card: PredictionCard, evidence: boolean}[]} */
let waiting = [];
let underWay = 0;
let progress = { total: 0, done: 0 };
let limit = PAGE_SIZE;

export function startClassify() {
  byId("classify-choose").addEventListener("click", () => byId("classify-input").click());
  onFiles(byId("classify-input"), (files) => classify(files.map((file) => ({ file }))));
  byId("classify-camera").addEventListener("click", () =>
    openCamera("Photograph to classify", (file) => classify([{ file }])));
  makeDropZone(byId("screen-classify"), async (dropped) => {
    const files = (await dropped).filter(({ file, path }) => !path.length || isImage(file, store.imageEndings));
    classify(files.map(({ file }) => ({ file })));
  });
  byId("threshold").addEventListener("input", () => {
    localStorage.setItem(THRESHOLD_KEY, byId("threshold").value);
    applyThreshold();
  });
  byId("answers-more").addEventListener("click", () => {
    limit += PAGE_SIZE;
    show();
  });
  byId("answers-clear").addEventListener("click", () => {
    for (const { card } of waiting) card.failed("Left out.");
    waiting = [];
    for (const card of cards) card.forget();
    cards = [];
    show();
    byId("classify-title").focus();
  });
  store.addEventListener("change", update);
}

function update() {
  const { model, threshold } = store.state;
  byId("classify-none").hidden = Boolean(model);
  byId("classify-tools").hidden = !model;
  if (model) showMessage(byId("classify-message"), "");
  if (!byId("threshold-text").textContent) {
    byId("threshold").value = localStorage.getItem(THRESHOLD_KEY) ?? threshold;
    applyThreshold();
  }
}

function applyThreshold() {
  const threshold = byId("threshold").valueAsNumber;
  setText(byId("threshold-text"), percent(threshold));
  for (const card of cards) card.update(threshold);
  summarise();
}

/** @param {Question[]} questions */
export function classify(questions) {
  if (!questions.length) return;
  if (!store.latest?.model) {
    const none = "There is no model yet: train one on the teach screen, or open a model file.";
    return showMessage(byId("classify-message"), none);
  }
  if (!waiting.length && !underWay) progress = { total: 0, done: 0 };
  progress.total += questions.length;
  const fresh = questions.map((question) => new PredictionCard(question));
  cards = [...fresh, ...cards];
  waiting.push(...fresh.map((card) => ({ card, evidence: questions.length <= MAX_WITH_EVIDENCE })));
  limit = PAGE_SIZE;
  show();
  askNext();
}

function askNext() {
  while (underWay < MAX_REQUESTS) {
    const next = waiting.shift();
    if (!next) return;
    const { card, evidence } = next;
    underWay += 1;
    card.ask(evidence)
      .then(() => card.update(byId("threshold").valueAsNumber), (error) => card.failed(error.message))
      .finally(() => {
        underWay -= 1;
        progress.done += 1;
        summarise();
        askNext();
      });
  }
}

function show() {
  byId("answers").replaceChildren(...cards.slice(0, limit).map((card) => card.element));
  byId("answers-more").hidden = cards.length <= limit;
  byId("answers-clear").hidden = !cards.length;
  summarise();
}

/** One line: how many images, and what was predicted for them. */
function summarise() {
  const place = byId("classify-status");
  if (underWay || waiting.length) {
    return showMessage(place, `Classified ${number(progress.done)} of ${count(progress.total, "image")} …`, "plain");
  }
  if (cards.length < 2) return showMessage(place, "");
  /** @type {Map<string, number>} */
  const tally = new Map();
  for (const { prediction, unsure } of cards) {
    const doubt = prediction?.none_of_these ? "none of these" : "unsure";
    const name = !prediction ? "no prediction" : unsure ? doubt : prediction.predicted;
    tally.set(name, (tally.get(name) ?? 0) + 1);
  }
  const counts = [...tally].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${number(n)}`);
  showMessage(place, `${count(cards.length, "image")}: ${shortList(counts)}`, "plain");
}
