// One classified image: the prediction, its confidence, the evidence, why, and "wrong, it is ...".

import { api, fileUrl } from "../core/api.js";
import { button, el, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { confidence, count, percent } from "../core/text.js";
import { bars } from "./bars.js";
import { chooseClass } from "./dialogs.js";
import { showExplanation } from "./explanation.js";

/** @import { Prediction, Question } from "../core/types.js" */

const N_CLASSES_FIRST = 5; // listed before "all"
const ID_BYTES = 10; // of the hash of a file's content

export class PredictionCard {
  /** @type {Prediction | null} */
  prediction = null;
  unsure = false;

  /** @param {Question} question */
  constructor(question) {
    this.question = question;
    this.name = question.file?.name ?? question.name ?? "image";
    this.url = question.file ? URL.createObjectURL(question.file) : fileUrl(question.id ?? "");
    this.picture = el("img", { src: this.url, alt: this.name });
    this.picture.addEventListener("error", () => (this.picture.hidden = true)); // a format that browsers do not show
    this.evidence = button("Evidence", () => this.#toggleEvidence(), { "aria-pressed": "false", hidden: true });
    this.legend = el("p", { class: "legend key", hidden: true },
      el("span", {}, "against"), el("i", { "aria-hidden": "true" }), el("span", {}, "for"));
    this.title = el("h3", {}, "…");
    this.facts = el("p", { class: "key" }, this.name);
    this.bars = el("div", {});
    this.message = el("p", { class: "message", role: "alert" });
    this.status = el("p", { class: "message", role: "status" });
    this.correct = button("Correct", () => this.#confirm(), { hidden: true });
    this.wrong = button("Wrong, it is …", () => this.#chooseClass(), { hidden: true });
    this.why = button("Why?", () => this.#toggleExplanation(), { hidden: true, "aria-expanded": "false" });
    this.explanation = el("div", { class: "why", hidden: true });
    this.element = el("article", { class: "card answer", "aria-label": this.name },
      el("div", { class: "seen" }, this.picture, this.legend, this.evidence),
      el("div", { class: "prediction" }, this.title, this.facts, this.bars,
        el("div", { class: "buttons" }, this.wrong, this.correct, this.why), this.message, this.status),
      this.explanation);
  }

  /** @param {boolean} withEvidence */
  async ask(withEvidence) {
    this.prediction = await api.classify(this.question, withEvidence);
  }

  /** Give the browser its memory back. */
  forget() {
    if (this.question.file) URL.revokeObjectURL(this.url);
  }

  /** @param {string} text */
  failed(text) {
    setText(this.title, "No prediction");
    showMessage(this.message, text);
  }

  /** Show the prediction as it stands under a threshold. @param {number} threshold */
  update(threshold) {
    if (!this.prediction) return;
    const { predicted, probabilities, milliseconds, none_of_these: none, belonging_text: likeness } = this.prediction;
    const { probability } = probabilities[0];
    this.unsure = none || probability < threshold;
    const doubt = none ? "None of these" : "Unsure";
    const title = this.unsure ? [el("span", { class: "unsure" }, doubt), `: ${predicted}?`] : [predicted];
    this.title.replaceChildren(...title, ` ${confidence(probability)}`);
    const known = this.question.id ? ", an image that the model may have been trained on" : "";
    const unlike = none ? ` · Unlike the classes: ${likeness}` : "";
    setText(this.facts, `${this.name}${known} · ${Math.round(milliseconds)} ms${unlike}`);
    if (!this.bars.firstChild) this.#showBars(N_CLASSES_FIRST);
    this.evidence.hidden = this.why.hidden = this.wrong.hidden = false;
    this.correct.hidden = Boolean(this.question.id);
    this.correct.textContent = `Correct, add it to ${predicted}`;
  }

  /** @param {number} n */
  #showBars(n) {
    const probabilities = this.prediction?.probabilities ?? [];
    const rows = probabilities.slice(0, n).map((row, i) => ({
      name: row.class, share: row.probability, text: percent(row.probability, 1), kind: i ? "" : "first",
    }));
    this.bars.replaceChildren(bars(rows, "Probabilities"));
    if (rows.length === probabilities.length) return;
    const all = `all ${count(probabilities.length, "class", "classes")}`;
    this.bars.append(button(all, () => this.#showBars(probabilities.length), { class: "quiet" }));
  }

  async #toggleEvidence() {
    const on = this.evidence.getAttribute("aria-pressed") !== "true";
    const { prediction } = this;
    if (!prediction) return;
    if (on && !prediction.evidence) {
      this.evidence.disabled = true;
      try {
        prediction.evidence = (await api.explain(this.question, prediction.predicted)).evidence;
      } catch (error) {
        return showMessage(this.message, error.message);
      } finally {
        this.evidence.disabled = false;
      }
    }
    this.showEvidence(on, prediction.evidence ?? "", prediction.predicted);
  }

  /** @param {boolean} on @param {string} source @param {string} name */
  showEvidence(on, source, name) {
    this.evidence.setAttribute("aria-pressed", String(on));
    this.legend.hidden = !on;
    this.picture.hidden = false;
    this.picture.src = on ? source : this.url;
    this.picture.alt = on ? `Evidence for ${name} over ${this.name}` : this.name;
  }

  async #toggleExplanation() {
    const open = this.explanation.hidden;
    this.explanation.hidden = !open;
    this.why.setAttribute("aria-expanded", String(open));
    if (open && !this.explanation.firstChild) await showExplanation(this.explanation, this);
  }

  #chooseClass() {
    const leaveOut = this.unsure || !this.prediction ? [] : [this.prediction.predicted];
    chooseClass("Which class is it?", (name) => this.#addTo(name), { leaveOut });
  }

  async #confirm() {
    showMessage(this.message, "");
    try {
      if (this.prediction) await this.#addTo(this.prediction.predicted);
    } catch (error) {
      showMessage(this.message, error.message);
    }
  }

  /** Put the image into a class, from another one if the workspace has it already. @param {string} name */
  async #addTo(name) {
    const { question } = this;
    if (question.id) {
      await api.move(question.id, name);
    } else if (question.file) {
      const { accepted, refused } = await api.upload(name, [question.file]);
      question.id = accepted.length ? accepted[0].id : await moveFile(question.file, name, refused[0].error);
    }
    await store.refresh();
    this.wrong.textContent = "Another class …";
    this.correct.hidden = true;
    this.status.className = "message good";
    const again = el("a", { href: "#teach" }, "Train again");
    this.status.replaceChildren("Put into ", el("b", {}, name), ". ", again, " to learn from it.");
  }
}

/**
 * An image that the workspace has in another class cannot be added, but moved: its id is the hash of its content.
 * @param {File} file
 * @param {string} name
 * @param {string} refusal why it could not be added
 */
async function moveFile(file, name, refusal) {
  try {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const id = [...hash.slice(0, ID_BYTES)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    await api.move(id, name);
    return id;
  } catch {
    throw new Error(refusal); // not in the workspace, or a page without https, which may not hash
  }
}
