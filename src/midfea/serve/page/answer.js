// One classified image: the answer, how sure it is, the evidence, why, and "wrong, it is ...".

import { api, fileUrl } from "./api.js";
import { bars } from "./bars.js";
import { chooseClass } from "./dialogs.js";
import { button, el, say, tell } from "./dom.js";
import { refresh } from "./state.js";
import { showWhy } from "./why.js";
import { count, percent, sure } from "./words.js";

const N_SHOWN = 5; // classes, before "all"

export class Answer {
  /** what: {file} or {id, name, class}, an image of the workspace. */
  constructor(what) {
    this.what = what;
    this.name = what.file?.name ?? what.name;
    this.found = null;
    this.url = what.file ? URL.createObjectURL(what.file) : fileUrl(what.id);
    this.picture = el("img", { src: this.url, alt: this.name });
    this.picture.addEventListener("error", () => (this.picture.hidden = true)); // a format that browsers do not show
    this.evidence = button("Evidence", () => this.#toggle(), { "aria-pressed": "false", hidden: true });
    this.legend = el("p", { class: "legend key", hidden: true },
      el("span", {}, "against"), el("i", { "aria-hidden": "true" }), el("span", {}, "for"));
    this.verdict = el("h3", {}, "…");
    this.facts = el("p", { class: "key" }, this.name);
    this.bars = el("div", {});
    this.message = el("p", { class: "message", role: "alert" });
    this.status = el("p", { class: "message", role: "status" });
    this.right = button("Right", () => this.#teach(this.found.best), { hidden: true });
    this.wrong = button("Wrong, it is …", () => this.#correct(), { hidden: true });
    this.why = button("Why?", () => this.#explain(), { hidden: true, "aria-expanded": "false" });
    this.reasons = el("div", { class: "why", hidden: true });
    this.element = el("article", { class: "card answer", "aria-label": this.name },
      el("div", { class: "seen" }, this.picture, this.legend, this.evidence),
      el("div", { class: "told" }, this.verdict, this.facts, this.bars,
        el("div", { class: "buttons" }, this.wrong, this.right, this.why), this.message, this.status),
      this.reasons);
  }

  async ask(withEvidence, signal) {
    this.found = await api.classify(this.what, withEvidence, signal);
  }

  /** Give the browser its memory back. */
  forget() {
    if (this.what.file) URL.revokeObjectURL(this.url);
  }

  failed(text) {
    say(this.verdict, "No answer");
    tell(this.message, text);
  }

  /** Show the answer as it stands under a threshold. */
  update(threshold) {
    if (!this.found) return;
    const { probabilities, milliseconds } = this.found;
    const { class: best, probability } = probabilities[0];
    this.unsure = probability < threshold;
    const told = this.unsure ? [el("span", { class: "unsure" }, "Unsure"), `: ${best}?`] : [best];
    this.verdict.replaceChildren(...told, ` ${sure(probability)}`);
    const known = this.what.id ? ", an image that the model may have learned from" : "";
    say(this.facts, `${this.name}${known} · ${Math.round(milliseconds)} ms`);
    if (!this.bars.firstChild) this.#showBars(probabilities.slice(0, N_SHOWN));
    this.evidence.hidden = this.why.hidden = this.wrong.hidden = false;
    this.right.hidden = Boolean(this.what.id);
    this.right.textContent = `Right, keep it as ${best}`;
  }

  #showBars(shown) {
    const { probabilities } = this.found;
    const rows = shown.map((each, i) => ({
      name: each.class, share: each.probability, told: percent(each.probability, 1), kind: i ? "" : "first",
    }));
    this.bars.replaceChildren(bars(rows, "Probabilities"));
    if (shown.length === probabilities.length) return;
    const all = `all ${count(probabilities.length, "class", "classes")}`;
    this.bars.append(button(all, () => this.#showBars(probabilities), { class: "quiet" }));
  }

  async #toggle() {
    const on = this.evidence.getAttribute("aria-pressed") !== "true";
    if (on && !this.found.evidence) {
      this.evidence.disabled = true;
      try {
        this.found.evidence = (await api.explain(this.what, this.found.best)).evidence;
      } catch (error) {
        return tell(this.message, error.message);
      } finally {
        this.evidence.disabled = false;
      }
    }
    this.showEvidence(on, this.found.evidence, this.found.best);
  }

  showEvidence(on, source, name) {
    this.evidence.setAttribute("aria-pressed", String(on));
    this.legend.hidden = !on;
    this.picture.hidden = false;
    this.picture.src = on ? source : this.url;
    this.picture.alt = on ? `Evidence for ${name} over ${this.name}` : this.name;
  }

  async #explain() {
    const open = this.reasons.hidden;
    this.reasons.hidden = !open;
    this.why.setAttribute("aria-expanded", String(open));
    if (open && !this.reasons.firstChild) await showWhy(this.reasons, this);
  }

  #correct() {
    const told = this.unsure ? [] : [this.found.best];
    chooseClass("Which class is it?", (name) => this.#put(name), { leaveOut: told });
  }

  async #teach(name) {
    tell(this.message, "");
    try {
      await this.#put(name);
    } catch (error) {
      tell(this.message, error.message);
    }
  }

  /** Put the image into a class, from another one if the workspace knows it already. */
  async #put(name) {
    if (this.what.id) {
      await api.move(this.what.id, name);
    } else {
      const { accepted, refused } = await api.upload(name, [this.what.file]);
      this.what.id = accepted.length ? accepted[0].id : await moved(this.what.file, name, refused[0].error);
    }
    await refresh();
    this.wrong.textContent = "Another class …";
    this.right.hidden = true;
    this.status.className = "message good";
    const again = el("a", { href: "#teach" }, "Train again");
    this.status.replaceChildren("Put into ", el("b", {}, name), ". ", again, " to learn from it.");
  }
}

/** An image that the workspace has in another class cannot be added, but moved: the id is its content's hash. */
async function moved(file, name, refusal) {
  try {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const id = [...hash.slice(0, 10)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    await api.move(id, name);
    return id;
  } catch {
    throw new Error(refusal); // not known, or a page without https, which may not hash
  }
}
