// The classify screen: images in, answers out, the newest first.

import { Answer } from "./answer.js";
import { openCamera } from "./camera.js";
import { byId, say, tell } from "./dom.js";
import { droppable, isImage } from "./dropped.js";
import { store } from "./state.js";
import { count, number, percent } from "./words.js";

const BESIDE = 2; // questions at a time
const SHOWN = 24; // answers, before "show more"
const WITH_EVIDENCE = 24; // images; with more, evidence is asked for one by one
const THRESHOLD = "midfea-threshold"; // of this browser

let answers = []; // the newest first
let waiting = [];
let underWay = 0;
let asked = { total: 0, done: 0 };
let limit = SHOWN;

export function startClassify() {
  byId("classify-choose").addEventListener("click", () => byId("classify-input").click());
  byId("classify-input").addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    take(files.map((file) => ({ file })));
  });
  byId("classify-camera").addEventListener("click", () =>
    openCamera("Photograph to classify", (file) => take([{ file }])));
  droppable(byId("screen-classify"), async (dropped) => {
    const found = await dropped;
    take(found.filter(({ file, path }) => !path.length || isImage(file)).map(({ file }) => ({ file })));
  });
  const slider = byId("threshold");
  slider.addEventListener("input", () => {
    localStorage.setItem(THRESHOLD, slider.value);
    moveThreshold();
  });
  byId("answers-more").addEventListener("click", () => {
    limit += SHOWN;
    show();
  });
  byId("answers-clear").addEventListener("click", () => {
    for (const { answer } of waiting) answer.failed("Left out.");
    waiting = [];
    for (const answer of answers) answer.forget();
    answers = [];
    show();
    byId("classify-title").focus();
  });
  store.addEventListener("change", update);
}

function update() {
  const { model, threshold } = store.state;
  byId("classify-none").hidden = Boolean(model);
  byId("classify-tools").hidden = !model;
  if (model) tell(byId("classify-message"), "");
  if (!byId("threshold-text").textContent) {
    byId("threshold").value = localStorage.getItem(THRESHOLD) ?? threshold;
    moveThreshold();
  }
}

function moveThreshold() {
  const threshold = byId("threshold").valueAsNumber;
  say(byId("threshold-text"), percent(threshold));
  for (const answer of answers) answer.update(threshold);
  summarise();
}

/** whats: [{file} or {id, name, class}] */
export function take(whats) {
  if (!whats.length) return;
  if (!store.state?.model) {
    tell(byId("classify-message"), "There is no model yet: train one on the teach screen, or open a model file.");
    return;
  }
  if (!waiting.length && !underWay) asked = { total: 0, done: 0 };
  asked.total += whats.length;
  const fresh = whats.map((what) => new Answer(what));
  answers = [...fresh, ...answers];
  waiting.push(...fresh.map((answer) => ({ answer, evidence: whats.length <= WITH_EVIDENCE })));
  limit = SHOWN;
  show();
  next();
}

function next() {
  while (underWay < BESIDE && waiting.length) {
    const { answer, evidence } = waiting.shift();
    underWay += 1;
    answer.ask(evidence)
      .then(() => answer.update(byId("threshold").valueAsNumber), (error) => answer.failed(error.message))
      .finally(() => {
        underWay -= 1;
        asked.done += 1;
        summarise();
        next();
      });
  }
}

function show() {
  byId("answers").replaceChildren(...answers.slice(0, limit).map((answer) => answer.element));
  byId("answers-more").hidden = answers.length <= limit;
  byId("answers-clear").hidden = !answers.length;
  summarise();
}

/** One line: how many images, and as what they were answered. */
function summarise() {
  const place = byId("classify-status");
  if (underWay || waiting.length) {
    return tell(place, `Answered ${number(asked.done)} of ${count(asked.total, "image")} …`, "plain");
  }
  if (answers.length < 2) return tell(place, "");
  const tally = new Map();
  for (const { found, unsure } of answers) {
    const told = !found ? "no answer" : unsure ? "unsure" : found.best;
    tally.set(told, (tally.get(told) ?? 0) + 1);
  }
  const parts = [...tally].sort((a, b) => b[1] - a[1]).map(([name, n]) => `${name} ${number(n)}`);
  const listed = parts.slice(0, 12).join(", ") + (parts.length > 12 ? " …" : "");
  tell(place, `${count(answers.length, "image")}: ${listed}`, "plain");
}
