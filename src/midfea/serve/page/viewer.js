// One image, large: what it is, move it to another class, delete it, take that back, go on to the next.

import { api, fileUrl } from "./api.js";
import { chooseClass, openDialog } from "./dialogs.js";
import { button, el, say, tell } from "./dom.js";
import { refresh } from "./state.js";

/** Images that are all known, to be gone through. */
export const listed = (images) => ({
  count: () => images.length,
  at: async (index) => images[index] ?? null,
  refresh: async () => {},
});

/**
 * Open the image at `index` of a source: {count(), at(index), refresh()}.
 *
 * note(image): what else is known of it. classify(image): ask the model about it.
 */
export function openViewer(source, index, { note = null, classify = null } = {}) {
  let image = null;
  const picture = el("img", { class: "large", alt: "" });
  const about = el("p", { class: "key" });
  const extra = el("p", {});
  const message = el("p", { class: "message", role: "alert" });
  const done = el("span", { role: "status" });
  const undo = button("Undo", () => takeBack(), { hidden: true });
  const back = button("‹", () => go(index - 1), { "aria-label": "Image before" });
  const next = button("›", () => go(index + 1), { "aria-label": "Next image" });
  const moved = button("Move to another class …", move, { class: "primary" });
  const removed = button("Delete", remove, { class: "danger" });
  const asked = button("Ask the model", () => {
    dialog.close();
    classify(image);
  }, { hidden: !classify });
  let takeBack = () => {};
  const { dialog, heading } = openDialog("", {
    kind: "viewer",
    body: [
      picture, about, extra, message,
      el("p", { class: "undo" }, done, undo),
      el("div", { class: "buttons" }, moved, asked, removed, el("span", { class: "spring" }), back, next),
    ],
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.closest("dialog") !== dialog) return;
    if (event.key === "ArrowLeft" && !back.disabled) go(index - 1);
    if (event.key === "ArrowRight" && !next.disabled) go(index + 1);
  });

  async function go(wanted) {
    image = await source.at(wanted).catch(() => null);
    const focused = document.activeElement;
    for (const each of [moved, removed, asked]) each.disabled = !image;
    picture.hidden = !image;
    if (image) {
      index = wanted;
      say(heading, image.name || "Image");
      picture.src = fileUrl(image.id);
      picture.alt = `${image.name || "image"} of class ${image.class}`;
      const size = image.width ? `, ${image.width} × ${image.height} pixels` : "";
      about.replaceChildren("class ", el("b", {}, image.class), `${size}, ${index + 1} of ${source.count()}`);
    } else {
      say(heading, "No more images");
      about.replaceChildren();
    }
    say(extra, (image && note?.(image)) || "");
    back.disabled = !image || index <= 0;
    next.disabled = !image || index >= source.count() - 1;
    tell(message, "");
    if (focused?.disabled) heading.parentElement.querySelector("button").focus();
  }

  /** After a change: the same place, or the next one if the image is still in the list. */
  async function goOn(gone) {
    await Promise.all([refresh(), source.refresh()]);
    const here = await source.at(index);
    await go(here?.id === gone.id && index < source.count() - 1 ? index + 1 : Math.min(index, source.count() - 1));
  }

  function offer(text, act) {
    say(done, text);
    undo.hidden = false;
    takeBack = async () => {
      undo.hidden = true;
      try {
        await act();
        say(done, "Taken back.");
        await Promise.all([refresh(), source.refresh()]);
        if (!image) await go(Math.min(index, source.count() - 1));
      } catch (error) {
        tell(message, error.message);
      }
    };
  }

  function move() {
    const gone = image;
    chooseClass(`Which class is ${gone.name || "it"}?`, async (name) => {
      await api.move(gone.id, name);
      await goOn(gone);
      offer(`Moved to ${name}. `, () => api.move(gone.id, gone.class));
    }, { leaveOut: [gone.class] });
  }

  async function remove() {
    const gone = image;
    try {
      const file = await api.file(gone);
      await api.remove(gone.id);
      await goOn(gone);
      offer(`Deleted ${gone.name || "the image"}. `, () => api.upload(gone.class, [file]));
    } catch (error) {
      tell(message, error.message);
    }
  }

  go(index);
  moved.focus();
  return dialog;
}
