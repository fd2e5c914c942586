// Images whose label looks wrong: in validation the model was confident of another class.

import { api, thumbnailUrl } from "../core/api.js";
import { button, el, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { confidence, count } from "../core/text.js";
import { listSource, openViewer } from "./image_viewer.js";

/** @import { WorkspaceImage } from "../core/types.js" */

const N_FIRST = 12;

/** What validation said of an image. @param {WorkspaceImage} image */
export const predictionNote = ({ predicted, confidence: share = 0 }) =>
  `In validation predicted as ${predicted}, with ${confidence(share)} confidence.`;

/**
 * @param {Required<WorkspaceImage>[]} images the most confident first
 * @param {{classify: (image: WorkspaceImage) => void}} options
 */
export function suspiciousLabels(images, { classify }) {
  if (!images.length) return el("p", {}, "None.");
  const gallery = el("div", { class: "gallery" });
  const more = button("Show more", () => show(gallery.children.length + 2 * N_FIRST));

  /** @param {number} n */
  function show(n) {
    /** @param {number} index */
    const open = (index) => openViewer(listSource(images), index, { classify, note: predictionNote });
    gallery.replaceChildren(...images.slice(0, n).map((image, index) => figure(image, () => open(index))));
    more.hidden = n >= images.length;
  }

  show(N_FIRST);
  return el("div", {},
    el("p", {}, `${count(images.length, "image")} with a wrong prediction, the most confident first. `
      + "Where the model is confident, the label is often the mistake."),
    gallery, el("div", { class: "buttons" }, more));
}

/** @param {Required<WorkspaceImage>} image @param {() => void} open */
function figure(image, open) {
  const message = el("p", { class: "message", role: "alert" });
  const move = button(`Move to ${image.predicted}`, async () => {
    move.disabled = true;
    try {
      await api.move(image.id, image.predicted);
      await store.refresh();
    } catch (error) {
      showMessage(message, error.message);
      move.disabled = false;
    }
  }, { class: "small", "aria-label": `Move ${image.name} to ${image.predicted}` });
  const label = `Open ${image.name}, labelled ${image.class}, predicted ${image.predicted}`;
  return el("figure", {},
    el("button", { type: "button", class: "picture", onclick: open, "aria-label": label },
      el("img", { src: thumbnailUrl(image.id), alt: "", loading: "lazy" })),
    el("figcaption", {},
      "labelled ", el("b", {}, image.class), el("br"),
      "predicted ", el("b", { class: "wrong" }, image.predicted), ` ${confidence(image.confidence)}`),
    move, message);
}
