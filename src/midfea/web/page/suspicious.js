// Images whose label looks wrong: a model that had not seen them was sure of another class.

import { api, thumbnailUrl } from "./api.js";
import { el, tell } from "./dom.js";
import { refresh } from "./state.js";
import { openViewer } from "./viewer.js";
import { count, percent } from "./words.js";

const SHOWN = 12;

export function suspicious(list, { classify }) {
  if (!list.length) return el("p", {}, "None.");
  const source = { count: () => list.length, at: async (index) => list[index] ?? null, refresh: async () => {} };
  const gallery = el("div", { class: "gallery" });
  const more = el("button", { type: "button", hidden: true, onclick: () => show(gallery.children.length + 2 * SHOWN) }, "Show more");

  function show(n) {
    gallery.replaceChildren(...list.slice(0, n).map((image, index) => figure(image, () =>
      openViewer(source, index, { classify, note: (each) => `Told ${each.answer}, ${percent(each.probability)} sure.` }))));
    more.hidden = n >= list.length;
  }

  show(SHOWN);
  return el("div", {},
    el("p", {}, `${count(list.length, "image")}, the surest first. Where a model is sure and wrong, the label is often the mistake.`),
    gallery, el("div", { class: "buttons" }, more));
}

function figure(image, open) {
  const message = el("p", { class: "message", role: "alert" });
  const move = el("button", { type: "button", class: "small" }, `Move to ${image.answer}`);
  move.addEventListener("click", async () => {
    move.disabled = true;
    try {
      await api.move(image.id, image.answer);
      await refresh();
    } catch (error) {
      tell(message, error.message);
      move.disabled = false;
    }
  });
  return el("figure", {},
    el("button", { type: "button", class: "picture", onclick: open, "aria-label": `Open ${image.name ?? "image"}, labelled ${image.class}, told ${image.answer}` },
      el("img", { src: thumbnailUrl(image.id), alt: "", loading: "lazy" })),
    el("figcaption", {}, "labelled ", el("b", {}, image.class), el("br"), "told ", el("b", { class: "wrong" }, image.answer), ` ${percent(image.probability)}`),
    move, message);
}
