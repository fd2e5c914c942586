// The teach screen: classes, images dropped as folders, and all uploads together.

import { api } from "../core/api.js";
import { groupByClass } from "../core/class_folders.js";
import { byId, onFiles, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { count, number } from "../core/text.js";
import { ClassCard } from "../parts/class_card.js";
import { chooseClass } from "../parts/dialogs.js";
import { chosenFiles, makeDropZone } from "../parts/drop_zone.js";
import { uploads } from "../parts/upload_queue.js";
import { startTraining } from "./training.js";

/** @import { WorkspaceImage } from "../core/types.js" */
/** @typedef {import("../core/class_folders.js").FoundFile<File>} FoundFile */

/** @type {Map<string, ClassCard>} */
const cards = new Map();
/** @type {{classify: (image: WorkspaceImage) => void}} */
let options = { classify: () => {} };

/** Cards load their images when they come into sight. */
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const card = [...cards.values()].find(({ element }) => element === target);
    if (!card) continue;
    card.inSight = isIntersecting;
    if (isIntersecting) updateCard(card);
  }
}, { rootMargin: "200px" });

/** @param {typeof options} given */
export function startTeach(given) {
  options = given;
  startTraining();
  byId("class-form").addEventListener("submit", makeClass);
  byId("folders-button").addEventListener("click", () => byId("folders-input").click());
  onFiles(byId("folders-input"), (files) => addFiles(chosenFiles(files)));
  byId("upload-stop").addEventListener("click", () => uploads.stop());
  makeDropZone(byId("screen-teach"), async (dropped) => {
    try {
      addFiles(await dropped);
    } catch (error) {
      showMessage(byId("class-message"), `This could not be read: ${error.message}`);
    }
  });
  store.addEventListener("change", update);
  uploads.addEventListener("change", updateUploads);
  uploads.addEventListener("idle", reportOrphans);
}

/** @param {Event} event */
async function makeClass(event) {
  event.preventDefault();
  const input = byId("class-name");
  showMessage(byId("class-message"), "");
  try {
    await api.makeClass(input.value);
    input.value = "";
    await store.refresh();
  } catch (error) {
    showMessage(byId("class-message"), error.message);
  }
  input.focus();
}

/** Add files and folders that were not dropped on a class. @param {FoundFile[]} files */
export function addFiles(files) {
  const message = byId("class-message");
  showMessage(message, "");
  const { classes, loose, others } = groupByClass(files, store.imageEndings);
  for (const [name, images] of classes) uploads.add(name, images);
  if (!classes.size && !loose.length) {
    showMessage(message, others.length ? "There are no images in this folder." : "This folder is empty.");
  } else if (others.length) {
    const ignored = count(others.length, "file that is no image was", "files that are no images were");
    showMessage(message, `${ignored} left out, such as ${others[0].name}.`, "plain");
  }
  if (loose.length) {
    const title = loose.length === 1 ? "Which class is this image?" : `Which class are these ${number(loose.length)} images?`;
    chooseClass(title, async (name) => uploads.add(name, loose));
  }
}

function update() {
  const { classes } = store.state;
  for (const [name, card] of cards) {
    if (store.classNames.includes(name)) continue;
    observer.unobserve(card.element);
    card.element.remove();
    cards.delete(name);
  }
  /** @type {HTMLElement | null} */
  let before = null;
  for (const { name } of classes) {
    let card = cards.get(name);
    if (!card) {
      card = new ClassCard(name, options);
      cards.set(name, card);
      observer.observe(card.element);
    }
    /** @type {Node | null} */
    const next = before ? before.nextSibling : byId("classes").firstChild;
    if (card.element !== next) byId("classes").insertBefore(card.element, next);
    before = card.element;
    updateCard(card);
  }
  byId("how-to-begin").hidden = classes.length > 2;
  updateUploads();
}

/** @param {ClassCard} card */
function updateCard(card) {
  const { classes, version } = store.state;
  const own = classes.find(({ name }) => name === card.name);
  if (own) card.update({ images: own.images, version });
}

function updateUploads() {
  byId("upload").hidden = !uploads.busy;
  if (uploads.busy) {
    const { total, done } = uploads.all;
    byId("upload-progress").max = Math.max(total, 1);
    byId("upload-progress").value = done;
    setText(byId("upload-text"), `Adding images: ${number(done)} of ${number(total)}`);
  }
  for (const card of cards.values()) card.updateUploads();
}

/** Files of a class that could not be made are reported above the classes. */
function reportOrphans() {
  const orphans = [...uploads.byClass.values()].filter(({ name, refused }) => refused.length && !cards.has(name));
  if (!orphans.length) return;
  const texts = orphans.map(({ name, refused }) => `${name} (${count(refused.length, "file")}): ${refused[0].error}`);
  showMessage(byId("class-message"), `Refused: ${texts.join("; ")}`);
  for (const { name } of orphans) uploads.dismiss(name);
}
