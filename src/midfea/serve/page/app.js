// The page as a whole: which screen is shown, what the header says, and whether the server is there.

import { watchCameras } from "./camera.js";
import { startClassify, take as classify } from "./classify.js";
import { byId, say, tell } from "./dom.js";
import { startInspect, updateInspect } from "./inspect.js";
import { refresh, running, store } from "./state.js";
import { startTakeAway } from "./take_away.js";
import { startTeach, take as takeFolder } from "./teach.js";
import { count, percent } from "./words.js";

const SCREENS = ["teach", "classify", "inspect", "take-away"];

function showScreen() {
  const wanted = location.hash.slice(1);
  const screen = SCREENS.includes(wanted) ? wanted : SCREENS[0];
  for (const each of SCREENS) byId(`screen-${each}`).hidden = each !== screen;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${screen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  updateInspect();
}

function go(screen) {
  location.hash = screen;
  showScreen();
  byId(`${screen}-title`).focus();
  scrollTo(0, 0);
}

function showFacts() {
  const { classes, images, model, workspace, job } = store.state;
  say(byId("workspace-name"), workspace.split(/[\\/]/).filter(Boolean).at(-1) ?? "Teach a classifier");
  const facts = [count(classes.length, "class", "classes"), count(images, "image")];
  if (running()) facts.push(`training ${percent(job.fraction)}`);
  else if (!model) facts.push("no model yet");
  else if (model.accuracy) facts.push(`${percent(model.accuracy.value, 1)} right`);
  else facts.push(model.opened ? "model opened from a file" : "trained");
  if (model?.stale && !running()) facts.push("images have changed since training");
  say(byId("workspace-facts"), facts.join(" · "));
}

const askModel = (image) => {
  go("classify");
  classify([{ id: image.id, name: image.name ?? "image", class: image.class }]);
};

startTeach({ classify: askModel });
startClassify();
startInspect({ classify: askModel });
startTakeAway({
  takeFolder: (found) => {
    go("teach");
    takeFolder(found);
  },
});
store.addEventListener("change", showFacts);
store.addEventListener("lost", (event) => tell(byId("connection"), event.detail));
store.addEventListener("found", () => tell(byId("connection"), ""));
// A file dropped beside its place must not make the browser leave the page.
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
addEventListener("hashchange", showScreen);
watchCameras();
showScreen();
refresh();
