// Why an image was answered so: words, stages, neurons, the images most like it.

import { api, thumbnailUrl } from "./api.js";
import { bars } from "./bars.js";
import { el, tell } from "./dom.js";
import { listed, openViewer } from "./viewer.js";

const N_NEURONS = 8;
const PLACES = "Each at the place where it weighed most, with what it adds to the decision value.";

export async function showWhy(place, answer) {
  const message = el("p", { class: "message", role: "alert" });
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "key" }, "Looking …"));
  const choice = el("select", {}, answer.found.probabilities.map((each) => el("option", { value: each.class }, each.class)));
  choice.addEventListener("change", load);
  place.replaceChildren(
    el("label", { class: "field inline" }, el("span", {}, "What speaks for and against"), choice), message, body);

  async function load() {
    tell(message, "");
    body.setAttribute("aria-busy", "true");
    try {
      const found = await api.explain(answer.what, choice.value);
      answer.showEvidence(true, found.evidence, found.class);
      body.replaceChildren(...parts(found));
    } catch (error) {
      body.replaceChildren();
      tell(message, error.message);
    }
    body.removeAttribute("aria-busy");
  }

  await load();
}

function parts(found) {
  const shown = [
    part(`Words for ${found.class}`, PLACES, words(found.words_for, "for")),
    part(`Words against ${found.class}`, "", words(found.words_against, "against")),
    part("What the stages see", "", gallery(found.stages.map(({ name, image }) => figure(image, name)), "stages")),
  ];
  if (found.neurons?.length) {
    const rows = found.neurons.slice(0, N_NEURONS).map((each) => ({
      name: `${each.neuron}: ${each.class}`, share: each.activation, told: each.activation.toFixed(2),
    }));
    shown.push(part("Neurons that fired", "With the class that each serves.", bars(rows, "Neurons")));
  }
  if (found.nearest?.length) shown.push(part("Images most like it", "", nearest(found.nearest)));
  return shown;
}

function part(title, note, content) {
  return el("div", { class: "part" }, el("h4", {}, title), note && el("p", { class: "key" }, note), content);
}

function words(list, kind) {
  if (!list.length) return el("p", { class: "key" }, "None.");
  return gallery(list.map((each) => figure(each.image, each.caption)), `words ${kind}`);
}

const gallery = (figures, kind) => el("div", { class: `strip ${kind}` }, figures);
const figure = (image, caption) =>
  el("figure", {}, el("img", { src: image, alt: "" }), el("figcaption", {}, caption));

function nearest(list) {
  return gallery(list.map((each, index) => {
    const open = () => openViewer(listed(list), index);
    const label = `Open ${each.name} of ${each.class}`;
    return el("figure", {},
      el("button", { type: "button", class: "picture", "aria-label": label, onclick: open },
        el("img", { src: thumbnailUrl(each.id), alt: "", loading: "lazy" })),
      el("figcaption", {}, each.class));
  }), "nearest");
}
