// One image, large: what it is, move it to another class, delete it, undo that, go on to the next.

import { api, fileUrl, thumbnailUrl } from "../core/api.js";
import { button, el, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { chooseClass, openDialog } from "./dialogs.js";

/** @import { ImageSource, WorkspaceImage } from "../core/types.js" */

/** A list of images as a source. @param {WorkspaceImage[]} images @returns {ImageSource} */
export const listSource = (images) => ({
  count: () => images.length,
  at: async (index) => images[index] ?? null,
  refresh: async () => {},
});

/**
 * What to say after an undo that could not give back the file's name: another file has it now.
 * @param {WorkspaceImage} before @param {WorkspaceImage} after
 */
export const nameTaken = (before, after) =>
  after.name === before.name ? "" : `The name ${before.name} is taken: the file is now ${after.name}.`;

/**
 * Open the image at `index` of a source.
 * @param {ImageSource} source
 * @param {number} index
 * @param {{note?: (image: WorkspaceImage) => string, classify?: (image: WorkspaceImage) => void}} options
 *   `note`: what else is known of an image
 */
export function openViewer(source, index, { note, classify } = {}) {
  /** @type {WorkspaceImage | null} */
  let image = null;
  let undoLast = async () => {};
  const picture = el("img", { class: "large", alt: "" });
  picture.addEventListener("error", () => { // a format that browsers do not show
    if (image && !picture.src.endsWith("/thumbnail")) picture.src = thumbnailUrl(image.id);
  });
  const about = el("p", { class: "key" });
  const extra = el("p", {});
  const message = el("p", { class: "message", role: "alert" });
  const status = el("span", { role: "status" });
  const undo = button("Undo", () => undoLast(), { hidden: true });
  const back = button("‹", () => goTo(index - 1), { "aria-label": "Image before" });
  const next = button("›", () => goTo(index + 1), { "aria-label": "Next image" });
  const moveButton = button("Move to another class …", move, { class: "primary" });
  const deleteButton = button("Delete", remove, { class: "danger" });
  const askButton = button("Ask the model", () => {
    dialog.close();
    if (image) classify?.(image);
  }, { hidden: !classify });
  const { dialog, heading } = openDialog("", {
    kind: "viewer",
    body: [
      picture, about, extra, message,
      el("p", { class: "undo" }, status, undo),
      el("div", { class: "buttons" }, moveButton, askButton, deleteButton, el("span", { class: "spring" }), back, next),
    ],
  });
  dialog.addEventListener("keydown", (event) => {
    if (/** @type {Element} */ (event.target).closest("dialog") !== dialog) return;
    if (event.key === "ArrowLeft" && !back.disabled) goTo(index - 1);
    if (event.key === "ArrowRight" && !next.disabled) goTo(index + 1);
  });

  /** @param {number} target */
  async function goTo(target) {
    image = await source.at(target).catch(() => null);
    const focused = document.activeElement;
    for (const control of [moveButton, deleteButton, askButton]) control.disabled = !image;
    picture.hidden = !image;
    if (image) {
      index = target;
      setText(heading, image.name || "Image");
      picture.src = fileUrl(image.id);
      picture.alt = `${image.name || "image"} of class ${image.class}`;
      const size = image.width ? `, ${image.width} × ${image.height} pixels` : "";
      about.replaceChildren("class ", el("b", {}, image.class), `${size}, ${index + 1} of ${source.count()}`);
    } else {
      setText(heading, "No more images");
      about.replaceChildren();
    }
    setText(extra, (image && note?.(image)) || "");
    back.disabled = !image || index <= 0;
    next.disabled = !image || index >= source.count() - 1;
    showMessage(message, "");
    if (focused instanceof HTMLButtonElement && focused.disabled) heading.parentElement?.querySelector("button")?.focus();
  }

  /**
   * After a change: the same place, or the next one if the image is still in the list.
   * @param {WorkspaceImage} changed
   */
  async function goOn(changed) {
    await Promise.all([store.refresh(), source.refresh()]);
    const here = await source.at(index);
    const last = source.count() - 1;
    await goTo(here?.id === changed.id && index < last ? index + 1 : Math.min(index, last));
  }

  /** @param {string} text @param {WorkspaceImage} before @param {() => Promise<WorkspaceImage>} act */
  function offerUndo(text, before, act) {
    setText(status, text);
    undo.hidden = false;
    undoLast = async () => {
      undo.hidden = true;
      try {
        setText(status, `Undone. ${nameTaken(before, await act())}`);
        await Promise.all([store.refresh(), source.refresh()]);
        if (!image) await goTo(Math.min(index, source.count() - 1));
      } catch (error) {
        showMessage(message, error.message);
      }
    };
  }

  function move() {
    const moved = image;
    if (!moved) return;
    chooseClass(`Which class is ${moved.name || "it"}?`, async (name) => {
      await api.move(moved.id, name);
      await goOn(moved);
      offerUndo(`Moved to ${name}. `, moved, () => api.move(moved.id, moved.class));
    }, { leaveOut: [moved.class] });
  }

  async function remove() {
    const removed = image;
    if (!removed) return;
    try {
      const file = await api.file(removed);
      await api.remove(removed.id);
      await goOn(removed);
      offerUndo(`Deleted ${removed.name || "the image"}. `, removed, async () => {
        const { accepted, refused } = await api.upload(removed.class, [file]);
        if (refused.length) throw new Error(refused[0].error);
        return accepted[0];
      });
    } catch (error) {
      showMessage(message, error.message);
    }
  }

  goTo(index);
  moveButton.focus();
}
