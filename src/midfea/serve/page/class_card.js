// A class on the teach screen: its name, its images, ways to add more, and what was refused.

import { api } from "./api.js";
import { openCamera } from "./camera.js";
import { ask, line } from "./dialogs.js";
import { droppable, filesChosen } from "./dropped.js";
import { button, el, filePicker, say, tell } from "./dom.js";
import { ImageGrid } from "./grid.js";
import { refusal, refusedList } from "./refused.js";
import { refresh } from "./state.js";
import { uploads } from "./uploads.js";
import { openViewer } from "./viewer.js";
import { count } from "./words.js";

const FEW = 10; // images, the number from which `midfea train` no longer warns

export class ClassCard {
  constructor(name, { classify }) {
    this.name = name;
    this.seen = null; // the version of the workspace that its grid shows
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
    const quiet = (text) => ({ class: "quiet", "aria-label": `${text} ${name}` });
    this.renamed = button("Rename", () => this.#rename(), quiet("Rename"));
    this.deleted = button("Delete", () => this.#delete(), quiet("Delete"));
    const take = (files) => this.take(filesChosen(files).map(({ file }) => file));
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
    if (!this.inSight || version === this.seen) return;
    this.seen = version;
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
      el("p", { class: "message error", role: "alert" }, refusal(list)),
      refusedList(list),
      el("div", { class: "buttons" },
        again && button("Try again", () => uploads.again(this.name)),
        !upload.busy && button("All right", () => uploads.dismiss(this.name), { class: "quiet" })));
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
    const lost = `The class and its ${count(held, "image")} are deleted from this machine. This cannot be taken back.`;
    ask(`Delete ${this.name}?`, {
      fields: [el("p", {}, held ? lost : "The class is empty.")],
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
