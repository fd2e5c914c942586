// The teach screen: classes, images dropped as folders, and all uploads together.

import { api } from "./api.js";
import { ClassCard } from "./class_card.js";
import { chooseClass } from "./dialogs.js";
import { byId, say, tell } from "./dom.js";
import { byClass, droppable, filesChosen } from "./dropped.js";
import { refresh, store } from "./state.js";
import { startTraining } from "./training.js";
import { uploads } from "./uploads.js";
import { count, number } from "./words.js";

const cards = new Map();
let options = {};

/** Cards ask for their images when they come into sight. */
const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const card = [...cards.values()].find((each) => each.element === target);
    if (!card) continue;
    card.inSight = isIntersecting;
    if (isIntersecting) updateCard(card);
  }
}, { rootMargin: "200px" });

export function startTeach(given) {
  options = given;
  startTraining();
  byId("class-form").addEventListener("submit", makeClass);
  byId("folders-button").addEventListener("click", () => byId("folders-input").click());
  byId("folders-input").addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    if (files.length) take(filesChosen(files));
  });
  byId("upload-stop").addEventListener("click", () => uploads.stop());
  droppable(byId("screen-teach"), async (dropped) => {
    try {
      take(await dropped);
    } catch (error) {
      tell(byId("class-message"), `This could not be read: ${error.message}`);
    }
  });
  store.addEventListener("change", update);
  uploads.addEventListener("change", updateUploads);
  uploads.addEventListener("idle", reportOrphans);
}

async function makeClass(event) {
  event.preventDefault();
  const input = byId("class-name");
  tell(byId("class-message"), "");
  try {
    await api.makeClass(input.value);
    input.value = "";
    await refresh();
  } catch (error) {
    tell(byId("class-message"), error.message);
  }
  input.focus();
}

/** Files and folders that were not dropped on a class. */
export function take(found) {
  tell(byId("class-message"), "");
  const { classes, loose, others } = byClass(found);
  for (const [name, files] of classes) uploads.add(name, files);
  if (!classes.size && !loose.length) {
    tell(byId("class-message"), others.length ? "No images were found in this folder." : "This folder is empty.");
  } else if (others.length) {
    const left = count(others.length, "file that is no image was", "files that are no images were");
    tell(byId("class-message"), `${left} left out, such as ${others[0].name}.`, "plain");
  }
  if (loose.length) {
    chooseClass(loose.length === 1 ? "Which class is this image?" : `Which class are these ${number(loose.length)} images?`,
      async (name) => uploads.add(name, loose));
  }
}

function update() {
  const { classes } = store.state;
  const names = new Set(classes.map((each) => each.name));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    sight.unobserve(card.element);
    card.element.remove();
    cards.delete(name);
  }
  let before = null;
  for (const { name } of classes) {
    let card = cards.get(name);
    if (!card) {
      card = new ClassCard(name, options);
      cards.set(name, card);
      sight.observe(card.element);
    }
    const next = before ? before.nextSibling : byId("classes").firstChild;
    if (card.element !== next) byId("classes").insertBefore(card.element, next);
    before = card.element;
    updateCard(card);
  }
  byId("how-to-begin").hidden = classes.length > 2;
  updateUploads();
}

function updateCard(card) {
  const { classes, version } = store.state;
  const mine = classes.find((each) => each.name === card.name);
  if (mine) card.update({ images: mine.images, version });
}

function updateUploads() {
  byId("upload").hidden = !uploads.busy;
  if (uploads.busy) {
    const { total, done } = uploads.all;
    byId("upload-progress").max = Math.max(total, 1);
    byId("upload-progress").value = done;
    say(byId("upload-text"), `Adding images: ${number(done)} of ${number(total)}`);
  }
  for (const card of cards.values()) card.updateUploads();
}

/** Files of a class that could not even be made are reported above the classes. */
function reportOrphans() {
  const orphans = [...uploads.byClass.values()].filter((each) => each.refused.length && !cards.has(each.name));
  if (!orphans.length) return;
  const texts = orphans.map(({ name, refused }) => `${name} (${count(refused.length, "file")}): ${refused[0].error}`);
  tell(byId("class-message"), `Not taken: ${texts.join("; ")}`);
  for (const { name } of orphans) uploads.dismiss(name);
}
