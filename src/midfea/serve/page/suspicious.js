// Images whose label looks wrong: a model that had not seen them was sure of another class.

import { api, thumbnailUrl } from "./api.js";
import { button, el, tell } from "./dom.js";
import { refresh } from "./state.js";
import { listed, openViewer } from "./viewer.js";
import { count, sure } from "./words.js";

const SHOWN = 12;

export function suspicious(list, { classify }) {
  if (!list.length) return el("p", {}, "None.");
  const note = (image) => `Told ${image.answer}, ${sure(image.probability)} sure.`;
  const gallery = el("div", { class: "gallery" });
  const more = button("Show more", () => show(gallery.children.length + 2 * SHOWN));

  function show(n) {
    const open = (index) => openViewer(listed(list), index, { classify, note });
    gallery.replaceChildren(...list.slice(0, n).map((image, index) => figure(image, () => open(index))));
    more.hidden = n >= list.length;
  }

  show(SHOWN);
  const found = `${count(list.length, "image")}, the surest first.`;
  return el("div", {},
    el("p", {}, `${found} Where a model is sure and wrong, the label is often the mistake.`),
    gallery, el("div", { class: "buttons" }, more));
}

function figure(image, open) {
  const message = el("p", { class: "message", role: "alert" });
  const move = button(`Move to ${image.answer}`, async () => {
    move.disabled = true;
    try {
      await api.move(image.id, image.answer);
      await refresh();
    } catch (error) {
      tell(message, error.message);
      move.disabled = false;
    }
  }, { class: "small", "aria-label": `Move ${image.name} to ${image.answer}` });
  const label = `Open ${image.name}, labelled ${image.class}, told ${image.answer}`;
  return el("figure", {},
    el("button", { type: "button", class: "picture", onclick: open, "aria-label": label },
      el("img", { src: thumbnailUrl(image.id), alt: "", loading: "lazy" })),
    el("figcaption", {},
      "labelled ", el("b", {}, image.class), el("br"),
      "told ", el("b", { class: "wrong" }, image.answer), ` ${sure(image.probability)}`),
    move, message);
}
