// The page as a whole: which screen is shown, what the header says, and whether the server answers.

import { byId, setText, showMessage } from "./core/dom.js";
import { store } from "./core/store.js";
import { count, percent } from "./core/text.js";
import { watchCameras } from "./parts/camera.js";
import { classify, startClassify } from "./screens/classify.js";
import { startInspect, updateInspect } from "./screens/inspect.js";
import { startTakeAway } from "./screens/take_away.js";
import { addFiles, startTeach } from "./screens/teach.js";

/** @import { WorkspaceImage } from "./core/types.js" */

const SCREENS = ["teach", "classify", "inspect", "take-away"];

function showScreen() {
  const wanted = location.hash.slice(1);
  const screen = SCREENS.includes(wanted) ? wanted : SCREENS[0];
  for (const name of SCREENS) byId(`screen-${name}`).hidden = name !== screen;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${screen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  updateInspect();
}

/** @param {string} screen */
function goTo(screen) {
  location.hash = screen;
  showScreen();
  byId(`${screen}-title`).focus();
  scrollTo(0, 0);
}

function showFacts() {
  const { classes, images, model, workspace, job } = store.state;
  setText(byId("workspace-name"), workspace.split(/[\\/]/).filter(Boolean).at(-1) ?? "Teach a classifier");
  const facts = [count(classes.length, "class", "classes"), count(images, "image")];
  if (job && store.training) facts.push(`training ${job.presets[job.phase]} ${percent(job.fraction)}`);
  if (!model) {
    if (!store.training) facts.push(store.state.model_loading ? "loading the model" : "no model yet");
  } else if (!store.training || job?.trained) {
    if (model.opened) facts.push("model opened from a file");
    const accuracy = model.accuracy?.value ?? null;
    if (accuracy !== null) facts.push(`${percent(accuracy, 1)} accuracy`);
    else if (!model.opened) facts.push("trained");
  }
  if (model?.stale && !store.training) facts.push("images have changed since training");
  setText(byId("workspace-facts"), facts.join(" · "));
}

/** @param {WorkspaceImage} image */
const askModel = (image) => {
  goTo("classify");
  classify([{ id: image.id, name: image.name ?? "image" }]);
};

startTeach({ classify: askModel });
startClassify();
startInspect({ classify: askModel });
startTakeAway({
  addFiles: (files) => {
    goTo("teach");
    addFiles(files);
  },
});
store.addEventListener("change", showFacts);
store.addEventListener("lost", (event) => showMessage(byId("connection"), /** @type {CustomEvent} */ (event).detail));
store.addEventListener("found", () => showMessage(byId("connection"), ""));
// A file dropped beside its place must not make the browser leave the page.
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
addEventListener("hashchange", showScreen);
watchCameras();
showScreen();
store.refresh();
