// Dialogs made when they are needed. The browser keeps the focus inside and brings it back afterwards.

import { el, freshId, tell } from "./dom.js";
import { classNames, store } from "./state.js";
import { number } from "./words.js";

/** Open a dialog with a title and a way out; it is taken away when it closes. */
export function openDialog(title, { kind = "", body = [], onclose = null } = {}) {
  const id = freshId();
  const heading = el("h2", { id }, title);
  const close = el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = el(
    "dialog",
    { "aria-labelledby": id, class: kind },
    el("div", { class: "top" }, heading, close),
    ...body,
  );
  const opener = document.activeElement;
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    (opener?.isConnected ? opener : inPlaceOf(opener))?.focus();
    onclose?.();
  });
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, heading };
}

/** What opened a dialog may be gone by now, a deleted image say, or drawn anew, as a cell of the matrix. */
function inPlaceOf(opener) {
  const cell = opener?.dataset?.cell;
  const again = cell && document.querySelector(`[data-cell="${cell}"]`);
  return again || document.querySelector("main > section:not([hidden]) h2");
}

/**
 * Ask something and do it: the dialog stays open, with the reason, until `act` succeeds.
 *
 * `fields` are elements above the buttons; `act` may be asynchronous and gets the form.
 */
export function ask(title, { fields = [], yes, danger = false, act, onclose }) {
  const message = el("p", { class: "message", role: "alert" });
  const button = el("button", { class: danger ? "danger" : "primary" }, yes);
  const form = el("form", {}, ...fields, message, el("div", { class: "buttons" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    tell(message, "");
    try {
      await act(form);
      dialog.close();
    } catch (error) {
      tell(message, error.message);
      button.disabled = false;
      form.querySelector("input")?.focus();
    }
  });
  const { dialog } = openDialog(title, { kind: "small", body: [form], onclose });
  (form.querySelector("input") ?? button).focus();
  return dialog;
}

/** A labelled line to type in. */
export function line(label, value = "", attributes = {}) {
  const input = el("input", { type: "text", value, autocomplete: "off", maxlength: 100, required: true, ...attributes });
  return { input, field: el("label", { class: "field" }, el("span", {}, label), input) };
}

/**
 * Choose a class, or name a new one; `act` gets the name.
 *
 * A list for a few classes, narrowed by typing for many.
 */
export function chooseClass(title, act, { leaveOut = [], note = "" } = {}) {
  const names = classNames().filter((name) => !leaveOut.includes(name));
  const held = new Map(store.state.classes.map((each) => [each.name, each.images]));
  const message = el("p", { class: "message", role: "alert" });
  const list = el("ul", { class: "choices" });
  const { input, field } = line(names.length ? "Find a class, or name a new one" : "Name of the new class");
  const fresh = el("button", { class: "primary" }, "New class");
  const form = el("form", { class: "row" }, field, fresh);

  async function choose(name) {
    tell(message, "");
    for (const button of dialog.querySelectorAll("button")) button.disabled = true;
    try {
      await act(name);
      dialog.close();
    } catch (error) {
      tell(message, error.message);
      for (const button of dialog.querySelectorAll("button")) button.disabled = false;
    }
  }

  function show() {
    const sought = input.value.trim().toLowerCase();
    const shown = names.filter((name) => name.toLowerCase().includes(sought));
    list.replaceChildren(
      ...shown.map((name) =>
        el("li", {}, el("button", { type: "button", onclick: () => choose(name) },
          el("span", {}, name), el("span", { class: "key" }, number(held.get(name))))),
      ),
    );
    fresh.textContent = names.some((name) => name.toLowerCase() === sought) ? "This class" : "New class";
  }

  input.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = input.value.trim();
    choose(classNames().find((name) => name.toLowerCase() === typed.toLowerCase()) ?? typed);
  });
  const { dialog } = openDialog(title, {
    kind: "small",
    body: [note && el("p", { class: "key" }, note), form, message, list].filter(Boolean),
  });
  show();
  (list.querySelector("button") ?? input).focus();
}
