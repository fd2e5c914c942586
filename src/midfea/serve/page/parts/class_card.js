// A class on the teach screen: its name, its images, ways to add more, and what was refused.

import { api } from "../core/api.js";
import { button, el, filePicker, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { count } from "../core/text.js";
import { openCamera } from "./camera.js";
import { confirmDialog, textField } from "./dialogs.js";
import { chosenFiles, makeDropZone } from "./drop_zone.js";
import { ImageGrid } from "./image_grid.js";
import { openViewer } from "./image_viewer.js";
import { refusedList, refusedTitle } from "./refused_files.js";
import { uploads } from "./upload_queue.js";

/** @import { WorkspaceImage } from "../core/types.js" */

const MIN_IMAGES = 10; // of a class; `midfea train` warns below it

export class ClassCard {
  /** @type {number | null} */
  #version = null; // of the workspace, that the grid shows
  inSight = false;

  /** @param {string} name @param {{classify: (image: WorkspaceImage) => void}} options */
  constructor(name, { classify }) {
    this.name = name;
    this.title = el("h3", {}, name);
    this.facts = el("span", { class: "key" });
    this.message = el("p", { class: "message", role: "alert" });
    this.refused = el("div", { class: "refused" });
    this.grid = new ImageGrid({
      label: `Images of ${name}`,
      load: (offset, limit) => api.images(name, offset, limit),
      open: (index) => openViewer(this.grid, index, { classify }),
      failed: (text) => showMessage(this.message, text),
    });
    const quiet = (/** @type {string} */ text) => ({ class: "quiet", "aria-label": `${text} ${name}` });
    this.renamed = button("Rename", () => this.#rename(), quiet("Rename"));
    this.deleted = button("Delete", () => this.#delete(), quiet("Delete"));
    const take = (/** @type {File[]} */ chosen) => this.take(chosenFiles(chosen).map(({ file }) => file));
    const files = filePicker(`Images for ${name}`, { accept: "image/*", multiple: true }, take);
    const folder = filePicker(`Folder for ${name}`, { webkitdirectory: true, multiple: true }, take);
    const camera = { class: "needs-camera", "aria-label": `Photograph for ${name}` };
    this.element = el("div", { class: "card class", role: "group", "aria-label": `Class ${name}` },
      el("div", { class: "top" }, el("div", { class: "name" }, this.title, this.facts), this.renamed, this.deleted),
      this.grid.element,
      el("div", { class: "buttons" },
        button("Add images", () => files.click(), { "aria-label": `Add images to ${name}` }),
        button("Add folder", () => folder.click(), { "aria-label": `Add a folder to ${name}` }),
        button("Camera", () => this.#photograph(), camera), files, folder),
      this.message, this.refused);
    makeDropZone(this.element, async (dropped) => {
      try {
        this.take((await dropped).map(({ file }) => file));
      } catch (error) {
        showMessage(this.message, `This could not be read: ${error.message}`);
      }
    });
  }

  /** @param {File[]} files */
  take(files) {
    showMessage(this.message, files.length ? "" : "There is nothing in it to add.");
    if (files.length) uploads.add(this.name, files);
  }

  /** The state has changed, or the card has come into sight. @param {{images: number, version: number}} state */
  update({ images, version }) {
    const few = images && images < MIN_IMAGES ? `, few: ${MIN_IMAGES} or more are better` : "";
    setText(this.facts, count(images, "image") + few);
    this.element.classList.toggle("empty", images === 0);
    if (!this.inSight || version === this.#version) return;
    this.#version = version;
    this.grid.refresh();
  }

  updateUploads() {
    const upload = uploads.get(this.name);
    this.renamed.disabled = this.deleted.disabled = Boolean(upload?.busy);
    const refused = upload?.refused ?? [];
    const content = `${refused.length} ${upload?.busy}`;
    if (this.refused.dataset.content === content) return;
    this.refused.dataset.content = content;
    if (!refused.length) return this.refused.replaceChildren();
    const canRetry = refused.some(({ file }) => file) && !upload?.busy;
    this.refused.replaceChildren(
      el("p", { class: "message error", role: "alert" }, refusedTitle(refused)),
      refusedList(refused),
      el("div", { class: "buttons" },
        canRetry && button("Try again", () => uploads.retry(this.name)),
        !upload?.busy && button("OK", () => uploads.dismiss(this.name), { class: "quiet" })));
  }

  #rename() {
    const { input, field } = textField("New name", this.name);
    confirmDialog(`Rename ${this.name}`, {
      fields: [field],
      yes: "Rename",
      act: async () => {
        await api.renameClass(this.name, input.value);
        await store.refresh();
      },
    });
    input.select();
  }

  #delete() {
    const total = this.grid.total;
    const warning = `The class and its ${count(total, "image")} are deleted from this machine. This cannot be undone.`;
    confirmDialog(`Delete ${this.name}?`, {
      fields: [el("p", {}, total ? warning : "The class is empty.")],
      yes: total ? `Delete ${count(total, "image")}` : "Delete",
      danger: true,
      act: async () => {
        await api.deleteClass(this.name);
        uploads.dismiss(this.name);
        await store.refresh();
      },
    });
  }

  #photograph() {
    openCamera(`Photograph for ${this.name}`, (file) => this.take([file]), { several: true });
  }
}
