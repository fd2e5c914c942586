// Part of the teach screen: train, watch, cancel, and how good the model is.

import { api } from "../core/api.js";
import { byId, el, fromHtml, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { count, duration, moment, number, percent, shortList } from "../core/text.js";
import { uploads } from "../parts/upload_queue.js";

/** @import { Comparison, Job, Model, State } from "../core/types.js" */

const SETTINGS_KEY = "midfea-settings"; // in the storage of this browser
let present = ""; // what the result was made from
/** @type {Job["state"] | "none" | null} */
let lastJob = null; // the state of the job at the poll before

export function startTraining() {
  byId("train-form").addEventListener("submit", train);
  byId("cancel").addEventListener("click", cancel);
  store.addEventListener("change", update);
  uploads.addEventListener("change", update);
  const settings = JSON.parse(localStorage.getItem(SETTINGS_KEY) ?? "{}");
  if (settings.preset) byId("preset").value = settings.preset;
  if (settings.neurons) byId("neurons").value = settings.neurons;
  if (settings.finetune) byId("finetune").checked = true;
}

/** @param {Event} event */
async function train(event) {
  event.preventDefault();
  const settings = {
    preset: byId("preset").value,
    neurons: byId("neurons").valueAsNumber || 0,
    finetune: byId("finetune").checked && !byId("finetune").disabled,
  };
  localStorage.setItem(SETTINGS_KEY, JSON.stringify(settings));
  showMessage(byId("train-message"), "");
  showMessage(byId("train-status"), "");
  byId("train").disabled = true;
  try {
    await api.train(settings);
  } catch (error) {
    showMessage(byId("train-message"), error.message);
  }
  await store.refresh();
  update();
}

async function cancel() {
  byId("cancel").disabled = true;
  try {
    await api.cancel();
  } catch (error) {
    showMessage(byId("train-message"), error.message);
  }
  await store.refresh();
  byId("cancel").disabled = false;
}

function update() {
  const state = store.latest;
  if (!state) return;
  const { job, model } = state;
  updateOffers(state);
  const wanted = JSON.stringify([model, state.model_error, state.model_loading, state.images > 0, store.training, job?.trained]);
  if (wanted !== present) {
    present = wanted;
    byId("result").replaceChildren(...result(state));
  }
  byId("job").hidden = !store.training;
  byId("train").disabled = store.training || uploads.busy;
  setText(byId("train"), uploads.busy ? "Wait for the images …" : model ? "Train again" : "Train");
  document.title = job && store.training ? `${percent(job.fraction)} – midfea` : "midfea: teach a classifier";
  if (job && store.training) {
    byId("job-progress").value = job.fraction;
    const left = job.seconds_left === null ? "" : `, about ${duration(job.seconds_left)} left`;
    setText(byId("job-text"), `${phaseOf(job)}${job.step}: ${percent(job.fraction)}${left}`);
    showMessage(byId("train-message"), "");
    if (lastJob !== "running") showMessage(byId("train-status"), "Training has begun.", "unseen");
    if (job.trained && job.trained < job.presets.length) showMessage(byId("train-status"), firstLook(job), "good");
  } else if (lastJob === "running" || lastJob === null) {
    showEnd(job, lastJob === "running");
  }
  lastJob = job?.state ?? "none";
}

/** Without PyTorch there is no second phase and no fine-tuning: say what that costs. @param {State} state */
function updateOffers({ missing: { torch: reason = "" } }) {
  const preset = byId("preset");
  const both = preset.querySelector("[value=auto]");
  both.hidden = both.disabled = Boolean(reason);
  if (reason && preset.value === "auto") preset.value = "fast";
  byId("finetune").disabled = Boolean(reason);
  if (reason) byId("finetune").checked = false;
  byId("missing-torch").hidden = !reason;
  if (reason) showMessage(byId("missing-torch"), `${reason}. ${NO_TORCH}`, "hint");
}

/** Which of several models is being trained. @param {Job} job */
const phaseOf = ({ presets, phase }) => (presets.length > 1 ? `${presets[phase]}, ${phase + 1} of ${presets.length}. ` : "");

/** @param {Job} job */
const firstLook = ({ presets, trained }) =>
  `First look: trained with ${presets[trained - 1]}. Classify and inspect, while ${presets[trained]} is trained.`;

/** The model of an earlier phase, after a later one did not end. @param {Job} job */
const kept = ({ presets, trained }) => (trained ? `The model of ${presets[trained - 1]} stays.` : "Nothing has changed.");

/**
 * A failure is shown to whoever comes later as well, a success only to those who watched.
 * @param {Job | null} job
 * @param {boolean} watched
 */
function showEnd(job, watched) {
  const status = byId("train-status");
  showMessage(status, "");
  if (job?.state === "failed") showMessage(byId("train-message"), `Training failed: ${job.error}. ${kept(job)}`);
  else if (job?.state === "cancelled" && watched) showMessage(status, `Training was cancelled. ${kept(job)}`, "plain");
  else if (job?.state === "done" && watched) showMessage(status, "Trained.", "good");
}

const NO_TORCH = "Without it no network is trained and models are less accurate: on Caltech-101 fast is right for 70.0%, "
  + "best with a network for 79.5%.";
const BEGIN = "Teach it by examples: classes, images, Train. The images never leave this machine.";
const PRESS = "Press Train when two classes or more have images. Ten images of each are a start, fifty are better.";
const MEANWHILE = "You can go on meanwhile: images that you add now are for the next training.";

/** @param {string} kept @param {Comparison} compared */
function comparison(kept, { preset, correct, other_preset: other, other_correct: otherCorrect, images }) {
  const shares = `${preset} is right for ${percent(correct / images, 1)}, ${other} for ${percent(otherCorrect / images, 1)}`;
  const end = kept === other ? `: ${preset} is clearly worse, so ${other} was kept.` : ".";
  return `On the same ${number(images)} images, not learned from: ${shares}${end}`;
}

/** What is known of the model, as elements. @param {State} state */
function result({ model, model_error: problem, model_loading: loading, images }) {
  /** @param {string} title @param {string} text */
  const section = (title, text) => [el("h3", {}, title), el("p", {}, text)];
  if (!model && store.training) return section("Training …", MEANWHILE);
  if (!model && loading) return section("Loading the model …", "This takes a moment.");
  const parts = model ? modelFacts(model) : section("No model yet", images ? PRESS : BEGIN);
  if (problem) parts.push(el("p", { class: "message error" }, problem));
  return parts;
}

/** @param {Model} model @returns {(HTMLElement | DocumentFragment)[]} */
function modelFacts(model) {
  const { accuracy, opened } = model;
  const classes = count(model.classes.length, "class", "classes");
  const parts = [];
  if (opened) parts.push(el("h3", {}, `Opened: ${model.name}`));
  if (accuracy) {
    parts.push(fromHtml(accuracy.drawing), el("p", { class: "key" }, `${accuracy.how[0].toUpperCase()}${accuracy.how.slice(1)}.`));
  }
  if (model.note) parts.push(el("p", { class: "message hint" }, `${model.note}.`));
  if (opened) {
    const meaning = accuracy ? "The accuracy is that of its own training." : "Its accuracy is not in the file.";
    parts.push(el("p", {}, `This model came from a file and knows ${classes}: ${shortList(model.classes)}. `
      + `${meaning} Train replaces it.`));
    return parts;
  }
  if (!accuracy) {
    parts.push(el("h3", {}, "Trained"));
    parts.push(el("p", {}, "The accuracy is not known: there were too few images for validation."));
  }
  if (model.compared) parts.push(el("p", { class: "key" }, comparison(model.preset, model.compared)));
  const facts = [`${classes} from ${count(model.images ?? 0, "image")}`, model.preset, moment(model.trained)];
  if (model.seconds) facts.push(`in ${duration(model.seconds)}`);
  if (model.ms_per_image) facts.push(`${model.ms_per_image.toFixed(1)} ms an image`);
  if (model.left_out) facts.push(`${count(model.left_out, "image")} left out, too small or damaged`);
  parts.push(el("p", { class: "key" }, facts.join(" · ")));
  if (model.series) parts.push(el("p", { class: "key" }, `${model.series}. Validation keeps each series together.`));
  if (model.stale) {
    parts.push(el("p", { class: "message hint" }, "Images have changed since. Train again to learn from them."));
  }
  return parts;
}
