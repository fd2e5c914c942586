// Train, watch, cancel, and what came of it.

import { api } from "./api.js";
import { byId, el, say, tell } from "./dom.js";
import { accuracyShown } from "./interval.js";
import { refresh, running, store } from "./state.js";
import { uploads } from "./uploads.js";
import { count, duration, moment, percent } from "./words.js";

const SETTINGS = "midfea-settings"; // of this browser
let shownModel = null;
let lastJob = null; // the state of the job at the poll before

export function startTraining() {
  byId("train-form").addEventListener("submit", train);
  byId("cancel").addEventListener("click", cancel);
  store.addEventListener("change", update);
  uploads.addEventListener("change", update);
  const kept = JSON.parse(localStorage.getItem(SETTINGS) ?? "{}");
  if (kept.preset) byId("preset").value = kept.preset;
  if (kept.neurons) byId("neurons").value = kept.neurons;
  if (kept.finetune) byId("finetune").checked = true;
}

async function train(event) {
  event.preventDefault();
  const settings = {
    preset: byId("preset").value,
    neurons: byId("neurons").valueAsNumber || 0,
    finetune: byId("finetune").checked,
  };
  localStorage.setItem(SETTINGS, JSON.stringify(settings));
  tell(byId("train-message"), "");
  tell(byId("train-status"), "");
  byId("train").disabled = true;
  try {
    await api.train(settings);
  } catch (error) {
    tell(byId("train-message"), error.message);
  }
  await refresh();
  update();
}

async function cancel() {
  byId("cancel").disabled = true;
  try {
    await api.cancel();
  } catch (error) {
    tell(byId("train-message"), error.message);
  }
  await refresh();
  byId("cancel").disabled = false;
}

function update() {
  const state = store.state;
  if (!state) return;
  const { job, model } = state;
  const shown = JSON.stringify([model, state.model_error, state.images > 0, running()]);
  if (shown !== shownModel) {
    shownModel = shown;
    byId("result").replaceChildren(...result(state));
  }
  byId("job").hidden = !running();
  byId("train").disabled = running() || uploads.busy;
  say(byId("train"), uploads.busy ? "Wait for the images …" : model ? "Train again" : "Train");
  document.title = running() ? `${percent(job.fraction)} – midfea` : "midfea: teach a classifier";
  if (running()) {
    byId("job-progress").value = job.fraction;
    const left = job.seconds_left === null ? "" : `, about ${duration(job.seconds_left)} left`;
    say(byId("job-text"), `${job.step}: ${percent(job.fraction)}${left}`);
    tell(byId("train-message"), "");
    if (lastJob !== "running") tell(byId("train-status"), "Training has begun.", "unseen");
  } else if (lastJob === "running" || lastJob === null) {
    finished(job, lastJob === "running");
  }
  lastJob = job?.state ?? "none";
}

/** A failure is shown to whoever comes later as well, a success only to those who watched. */
function finished(job, watched) {
  const status = byId("train-status");
  tell(status, "");
  if (job?.state === "failed") tell(byId("train-message"), `Training failed: ${job.error}`);
  else if (job?.state === "cancelled" && watched) tell(status, "Training was cancelled. Nothing has changed.", "plain");
  else if (job?.state === "done" && watched) tell(status, "Trained.", "good");
}

const BEGIN = "Teach it by examples: classes, images, Train. The images never leave this machine.";
const PRESS = "Press Train when two classes or more have images. Ten images of each are a start, fifty are better.";
const GO_ON = "You may go on meanwhile: images that you add now are for the next training.";

/** What is known of the model, as elements. */
function result({ model, model_error: problem, images }) {
  const told = (title, text) => [el("h3", {}, title), el("p", {}, text)];
  if (!model && running()) return told("Training …", GO_ON);
  const parts = model ? known(model) : told("No model yet", images ? PRESS : BEGIN);
  if (problem) parts.push(el("p", { class: "message error" }, problem));
  return parts;
}

function known(model) {
  const classes = count(model.classes.length, "class", "classes");
  if (model.opened) {
    return [
      el("h3", {}, `Opened: ${model.name}`),
      el("p", {}, `This model came from a file and knows ${classes}: ${some(model.classes)}. `
        + "How good it is on your images is not known here; Train replaces it."),
    ];
  }
  const parts = [];
  if (model.accuracy) {
    const { how } = model.accuracy;
    parts.push(accuracyShown(model.accuracy), el("p", { class: "key" }, `${how[0].toUpperCase()}${how.slice(1)}.`));
  } else {
    parts.push(el("h3", {}, "Trained"));
    parts.push(el("p", {}, "How good the model is cannot be said: nothing could be held out."));
  }
  const facts = [`${classes} from ${count(model.images, "image")}`, model.preset];
  if (model.seconds) facts.push(`in ${duration(model.seconds)}`);
  if (model.trained) facts.push(moment(model.trained));
  if (model.ms_per_image) facts.push(`${model.ms_per_image.toFixed(1)} ms an image`);
  if (model.left_out) facts.push(`${count(model.left_out, "image")} left out, too small or damaged`);
  parts.push(el("p", { class: "key" }, facts.join(" · ")));
  if (model.stale) {
    parts.push(el("p", { class: "message hint" }, "Images have changed since. Train again to learn from them."));
  }
  return parts;
}

function some(names) {
  return names.length > 12 ? `${names.slice(0, 12).join(", ")} …` : names.join(", ");
}
