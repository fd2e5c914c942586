// Where the model disagrees: one image at a time, is its label right? Each answer can be undone.

import { api, thumbnailUrl } from "../core/api.js";
import { button, el, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { confidence, count } from "../core/text.js";
import { listSource, nameTaken, openViewer } from "./image_viewer.js";

/** @import { Disagreements, ListedImage, WorkspaceImage } from "../core/types.js" */
/** @typedef {{image: ListedImage, undo: () => Promise<string>}} Step */

/** What validation said of an image. @param {WorkspaceImage} image */
export const predictionNote = ({ predicted, confidence: share = 0 }) =>
  `In validation predicted as ${predicted}, with ${confidence(share)} confidence.`;

const HOW = "There the model is as sure of another class as where it is right, and rules out the label. "
  + "The label may be wrong, or the model: what do you see?";

export class DisagreementReview {
  /** @type {ListedImage[]} */
  #images = []; // not yet answered, the surest first
  /** @type {ListedImage | null} */
  #image = null; // the one that is shown
  /** @type {Step[]} */
  #steps = []; // that can be undone, the last one first to go
  #skipped = new Set(); // ids
  #nChecked = 0;
  #busy = false;

  /** @param {{classify: (image: WorkspaceImage) => void}} options */
  constructor(options) {
    this.intro = el("p", {});
    this.picture = el("img", { alt: "" });
    this.open = el("button", { type: "button", class: "picture", onclick: () => this.#open(options) }, this.picture);
    this.about = el("p", {});
    this.file = el("p", { class: "key" });
    this.right = button("Label is right", () => this.#right(), { class: "primary" });
    this.wrong = button("Label is wrong, it is", () => this.#wrong());
    this.classes = el("select", { "aria-label": "The right class" });
    this.skip = button("Skip", () => this.#skip());
    this.again = button("Show the skipped ones again", () => this.#showSkipped(), { hidden: true });
    this.message = el("p", { class: "message", role: "alert" });
    this.status = el("span", { role: "status" });
    this.undo = button("Undo", () => this.#undo(), { hidden: true });
    this.card = el("div", { class: "review" }, this.open, el("div", {}, this.about, this.file,
      el("div", { class: "buttons" }, this.right, el("span", { class: "row" }, this.wrong, this.classes), this.skip)));
    this.undoLine = el("p", { class: "undo", hidden: true }, this.status, this.undo);
    this.element = el("div", {}, this.intro, this.card, this.again, this.message, this.undoLine);
  }

  /** The server's list. @param {Disagreements} found */
  update({ images, reason, checked }) {
    this.#images = images;
    this.#nChecked = checked;
    this.#show(reason);
  }

  /** @param {string | null} reason why nothing is listed */
  #show(reason = null) {
    const open = this.#images.filter(({ id }) => !this.#skipped.has(id));
    const image = open.find(({ id }) => id === this.#image?.id) ?? open[0] ?? null;
    const nSkipped = this.#images.length - open.length;
    setText(this.intro, reason ?? this.#summary(open.length, nSkipped));
    const focused = this.card.contains(document.activeElement);
    this.card.hidden = !image;
    this.again.hidden = Boolean(image) || !nSkipped;
    this.undo.hidden = !this.#steps.length;
    if (image && image.id !== this.#image?.id) this.#showImage(image);
    this.#image = image;
    if (focused && !image) (this.again.hidden ? this.undo : this.again).focus();
  }

  /** @param {number} nOpen @param {number} nSkipped */
  #summary(nOpen, nSkipped) {
    if (nOpen) return `${count(nOpen, "image")} to look at, the surest first. ${HOW}`;
    if (nSkipped) return `No more images, but ${count(nSkipped, "image was", "images were")} skipped.`;
    const checked = this.#nChecked ? ` ${count(this.#nChecked, "label was", "labels were")} called right.` : "";
    return `None: nowhere else is the model sure that a label is wrong.${checked}`;
  }

  /** @param {ListedImage} image */
  #showImage(image) {
    this.picture.src = thumbnailUrl(image.id);
    this.open.setAttribute("aria-label", `Open ${image.name}, labelled ${image.class}, predicted ${image.predicted}`);
    this.about.replaceChildren("labelled ", el("b", {}, image.class), ", predicted ",
      el("b", { class: "wrong" }, image.predicted), ` ${confidence(image.confidence)}`);
    setText(this.file, image.name);
    const others = store.classNames.filter((name) => name !== image.class && name !== image.predicted);
    this.classes.replaceChildren(...[image.predicted, ...others].map((name) => el("option", { value: name }, name)));
    this.classes.value = image.predicted;
    showMessage(this.message, "");
  }

  #right() {
    this.#answer((image) => api.label(image.id, image.class, true), (image) => `${image.name} stays ${image.class}. `);
  }

  #wrong() {
    const name = this.classes.value;
    this.#answer((image) => api.label(image.id, name, true), (image) => `${image.name} is now ${name}. `);
  }

  /**
   * @param {(image: ListedImage) => Promise<WorkspaceImage>} act
   * @param {(image: ListedImage) => string} words
   */
  #answer(act, words) {
    const image = this.#image;
    if (!image) return;
    this.#once(async () => {
      await act(image);
      const undo = async () => {
        const back = await api.label(image.id, image.class, false);
        store.refresh();
        return nameTaken(image, back);
      };
      this.#images = this.#images.filter(({ id }) => id !== image.id);
      this.#done({ image, undo }, words(image));
      store.refresh();
    });
  }

  #skip() {
    const image = this.#image;
    if (!image || this.#busy) return;
    this.#skipped.add(image.id);
    const undo = async () => {
      this.#skipped.delete(image.id);
      return "";
    };
    this.#done({ image, undo }, `${image.name} was skipped. `);
  }

  /** @param {Step} step @param {string} words */
  #done(step, words) {
    this.#steps.push(step);
    this.undoLine.hidden = false;
    setText(this.status, words);
    this.#show();
  }

  #undo() {
    this.#once(async () => {
      const step = this.#steps.at(-1);
      if (!step) return;
      const note = await step.undo();
      this.#steps.pop();
      this.#image = null;
      this.#images = [step.image, ...this.#images.filter(({ id }) => id !== step.image.id)];
      this.#show();
      setText(this.status, `Undone: ${step.image.name}. ${note}`);
      if (this.undo.hidden) this.right.focus();
    });
  }

  /** One request at a time; buttons stay enabled, so that the focus stays. @param {() => Promise<void>} act */
  async #once(act) {
    if (this.#busy) return;
    this.#busy = true;
    showMessage(this.message, "");
    try {
      await act();
    } catch (error) {
      showMessage(this.message, error.message);
    } finally {
      this.#busy = false;
    }
  }

  #showSkipped() {
    this.#skipped.clear();
    this.#show();
    this.right.focus();
  }

  /** @param {{classify: (image: WorkspaceImage) => void}} options */
  #open({ classify }) {
    if (this.#image) openViewer(listSource([this.#image]), 0, { classify, note: predictionNote });
  }
}
