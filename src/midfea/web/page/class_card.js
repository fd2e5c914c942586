// A class on the teach screen: its name, its images, ways to add more, and what was refused.

import { api } from "./api.js";
import { openCamera } from "./camera.js";
import { ask, line } from "./dialogs.js";
import { droppable, filesChosen } from "./dropped.js";
import { el, say, tell } from "./dom.js";
import { ImageGrid } from "./grid.js";
import { refresh } from "./state.js";
import { uploads } from "./uploads.js";
import { openViewer } from "./viewer.js";
import { count } from "./words.js";

const FEW = 10; // images, the number from which `midfea train` no longer warns

export class ClassCard {
  constructor(name, { classify }) {
    this.name = name;
    this.seen = null; // what of the state its grid shows
    this.inSight = false;
    this.title = el("h3", {}, name);
    this.facts = el("span", { class: "key" });
    this.message = el("p", { class: "message", role: "alert" });
    this.refused = el("div", { class: "refused" });
    this.grid = new ImageGrid({
      label: `Images of ${name}`,
      load: (offset, limit) => api.images(name, offset, limit),
      open: (index) => openViewer(this.grid, index, { classify }),
      failed: (text) => tell(this.message, text),
    });
    this.renamed = el("button", { type: "button", class: "quiet", "aria-label": `Rename ${name}`, onclick: () => this.#rename() }, "Rename");
    this.deleted = el("button", { type: "button", class: "quiet", "aria-label": `Delete ${name}`, onclick: () => this.#delete() }, "Delete");
    const files = el("input", { type: "file", accept: "image/*", multiple: true, hidden: true, "aria-label": `Images for ${name}` });
    const folder = el("input", { type: "file", webkitdirectory: true, multiple: true, hidden: true, "aria-label": `Folder for ${name}` });
    for (const input of [files, folder]) {
      input.addEventListener("change", () => {
        this.take(filesChosen(input).map(({ file }) => file));
        input.value = "";
      });
    }
    const camera = el("button", { type: "button", class: "needs-camera", "aria-label": `Photograph for ${name}`, onclick: () => this.#photograph() }, "Camera");
    this.element = el("div", { class: "card class", role: "group", "aria-label": `Class ${name}` },
      el("div", { class: "top" }, el("div", { class: "name" }, this.title, this.facts), this.renamed, this.deleted),
      this.grid.element,
      el("div", { class: "buttons" },
        el("button", { type: "button", "aria-label": `Add images to ${name}`, onclick: () => files.click() }, "Add images"),
        el("button", { type: "button", "aria-label": `Add a folder to ${name}`, onclick: () => folder.click() }, "Add folder"),
        camera, files, folder),
      this.message, this.refused);
    droppable(this.element, async (dropped) => {
      try {
        this.take((await dropped).map(({ file }) => file));
      } catch (error) {
        tell(this.message, `This could not be read: ${error.message}`);
      }
    });
  }

  take(files) {
    tell(this.message, files.length ? "" : "There is nothing in it to add.");
    if (files.length) uploads.add(this.name, files);
  }

  /** The state has changed, or the card has come into sight. */
  update({ images, version }) {
    say(this.facts, `${count(images, "image")}${images && images < FEW ? `, few: ${FEW} or more are better` : ""}`);
    this.element.classList.toggle("empty", images === 0);
    const seen = `${version}`;
    if (!this.inSight || seen === this.seen) return;
    this.seen = seen;
    this.grid.refresh();
  }

  updateUploads() {
    const upload = uploads.get(this.name);
    this.renamed.disabled = this.deleted.disabled = Boolean(upload?.busy);
    const list = upload?.refused ?? [];
    const shown = `${list.length} ${upload?.busy}`;
    if (this.refused.dataset.shown === shown) return;
    this.refused.dataset.shown = shown;
    if (!list.length) return this.refused.replaceChildren();
    const again = list.some((each) => each.file) && !upload.busy;
    this.refused.replaceChildren(
      el("p", { class: "message error", role: "alert" }, `${count(list.length, "file was", "files were")} not taken:`),
      el("ul", { tabindex: list.length > 4 ? 0 : null, "aria-label": "Files not taken" },
        list.slice(0, 200).map((each) => el("li", {}, el("b", {}, each.name), ` ${each.error}`)),
        list.length > 200 ? el("li", {}, `and ${list.length - 200} more`) : null),
      el("div", { class: "buttons" },
        again && el("button", { type: "button", onclick: () => uploads.again(this.name) }, "Try again"),
        !upload.busy && el("button", { type: "button", class: "quiet", onclick: () => uploads.dismiss(this.name) }, "All right")));
  }

  #rename() {
    const { input, field } = line("New name", this.name);
    ask(`Rename ${this.name}`, {
      fields: [field],
      yes: "Rename",
      act: async () => {
        await api.renameClass(this.name, input.value);
        await refresh();
      },
    });
    input.select();
  }

  #delete() {
    const held = this.grid.total;
    ask(`Delete ${this.name}?`, {
      fields: [el("p", {}, held ? `The class and its ${count(held, "image")} are deleted from this machine. This cannot be taken back.` : "The class is empty.")],
      yes: held ? `Delete ${count(held, "image")}` : "Delete",
      danger: true,
      act: async () => {
        await api.deleteClass(this.name);
        uploads.dismiss(this.name);
        await refresh();
      },
    });
  }

  #photograph() {
    openCamera(`Photograph for ${this.name}`, (file) => this.take([file]), { several: true });
  }
}
