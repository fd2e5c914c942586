// Why an image gets its prediction: words, stages, neurons, the most similar images.

import { api, thumbnailUrl } from "../core/api.js";
import { el, showMessage } from "../core/dom.js";
import { bars } from "./bars.js";
import { listSource, openViewer } from "./image_viewer.js";

/** @import { Explanation, WorkspaceImage, Word } from "../core/types.js" */

const MAX_NEURONS = 8;
const PLACES = "Each at the place where it counts most, with what it adds to the decision value.";

/**
 * @param {HTMLElement} place
 * @param {import("./prediction_card.js").PredictionCard} card
 */
export async function showExplanation(place, card) {
  const message = el("p", { class: "message", role: "alert" });
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "key" }, "Looking …"));
  const options = (card.prediction?.probabilities ?? []).map((row) => el("option", { value: row.class }, row.class));
  const choice = el("select", {}, options);
  choice.addEventListener("change", load);
  place.replaceChildren(
    el("label", { class: "field inline" }, el("span", {}, "What speaks for and against"), choice), message, body);

  async function load() {
    showMessage(message, "");
    body.setAttribute("aria-busy", "true");
    try {
      const explanation = await api.explain(card.question, choice.value);
      card.showEvidence(true, explanation.evidence, explanation.class);
      body.replaceChildren(...parts(explanation));
    } catch (error) {
      body.replaceChildren();
      showMessage(message, error.message);
    }
    body.removeAttribute("aria-busy");
  }

  await load();
}

/** @param {Explanation} explanation */
function parts(explanation) {
  const { stages, words_for: wordsFor, words_against: wordsAgainst, neurons, nearest } = explanation;
  const elements = [
    part(`Words for ${explanation.class}`, PLACES, words(wordsFor, "for")),
    part(`Words against ${explanation.class}`, "", words(wordsAgainst, "against")),
    part("What the stages see", "", gallery(stages.map(({ name, image }) => figure(image, name)), "stages")),
  ];
  if (neurons.length) {
    const rows = neurons.slice(0, MAX_NEURONS).map(({ neuron, activation, class: name }) => ({
      name: `${neuron}: ${name}`, share: activation, text: activation.toFixed(2),
    }));
    elements.push(part("Active neurons", "With the class that each responds to.", bars(rows, "Neurons")));
  }
  if (nearest.length) elements.push(part("Most similar training images", "", similarImages(nearest)));
  return elements;
}

/** @param {string} title @param {string} note @param {Node} content */
function part(title, note, content) {
  return el("div", { class: "part" }, el("h4", {}, title), note && el("p", { class: "key" }, note), content);
}

/** @param {Word[]} list @param {string} kind */
function words(list, kind) {
  if (!list.length) return el("p", { class: "key" }, "None.");
  return gallery(list.map(({ image, caption }) => figure(image, caption)), `words ${kind}`);
}

/** @param {Node[]} figures @param {string} kind */
const gallery = (figures, kind) => el("div", { class: `strip ${kind}` }, figures);
/** @param {string} image @param {string} caption */
const figure = (image, caption) =>
  el("figure", {}, el("img", { src: image, alt: "" }), el("figcaption", {}, caption));

/** @param {WorkspaceImage[]} images */
function similarImages(images) {
  return gallery(images.map(({ id, name, class: label }, index) => {
    const open = () => openViewer(listSource(images), index);
    return el("figure", {},
      el("button", { type: "button", class: "picture", "aria-label": `Open ${name} of ${label}`, onclick: open },
        el("img", { src: thumbnailUrl(id), alt: "", loading: "lazy" })),
      el("figcaption", {}, label));
  }), "nearest");
}
