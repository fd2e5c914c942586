// Dialogs made when they are needed. The browser keeps the focus inside and brings it back afterwards.

import { el, newId, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { number } from "../core/text.js";

/**
 * Open a dialog with a title and a way out; it is removed when it closes.
 * @param {string} title
 * @param {{kind?: string, body?: Node[], onclose?: () => void}} options
 */
export function openDialog(title, { kind = "", body = [], onclose } = {}) {
  const id = newId();
  const heading = el("h2", { id }, title);
  const close = el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = el(
    "dialog",
    { "aria-labelledby": id, class: kind },
    el("div", { class: "top" }, heading, close),
    ...body,
  );
  const opener = /** @type {HTMLElement | null} */ (document.activeElement);
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

/**
 * What opened a dialog may be gone (a deleted image), or drawn anew (a cell of the matrix).
 * @param {HTMLElement | null} opener
 * @returns {HTMLElement | null}
 */
function inPlaceOf(opener) {
  const cell = opener?.dataset?.cell;
  const again = cell && document.querySelector(`[data-cell="${cell}"]`);
  return /** @type {HTMLElement | null} */ (again || document.querySelector("main > section:not([hidden]) h2"));
}

/**
 * Ask something and do it: the dialog stays open, with the reason, until `act` succeeds.
 * @param {string} title
 * @param {{fields: Node[], yes: string, danger?: boolean, act: () => void | Promise<void>}} options
 *   `fields` are elements above the button `yes`
 */
export function confirmDialog(title, { fields, yes, danger = false, act }) {
  const message = el("p", { class: "message", role: "alert" });
  const button = el("button", { class: danger ? "danger" : "primary" }, yes);
  const form = el("form", {}, ...fields, message, el("div", { class: "buttons" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    showMessage(message, "");
    try {
      await act();
      dialog.close();
    } catch (error) {
      showMessage(message, error.message);
      button.disabled = false;
      form.querySelector("input")?.focus();
    }
  });
  const { dialog } = openDialog(title, { kind: "small", body: [form] });
  (form.querySelector("input") ?? button).focus();
}

/** A labelled line to type in. @param {string} label */
export function textField(label, value = "") {
  const input = el("input", { type: "text", value, autocomplete: "off", maxlength: 100, required: true });
  return { input, field: el("label", { class: "field" }, el("span", {}, label), input) };
}

/**
 * Choose a class, or name a new one. A list for a few classes, narrowed by typing for many.
 * @param {string} title
 * @param {(name: string) => Promise<void>} act
 * @param {{leaveOut?: string[]}} options classes that are not offered
 */
export function chooseClass(title, act, { leaveOut = [] } = {}) {
  const names = store.classNames.filter((name) => !leaveOut.includes(name));
  const sizes = new Map(store.state.classes.map(({ name, images }) => [name, images]));
  const message = el("p", { class: "message", role: "alert" });
  const list = el("ul", { class: "choices" });
  const { input, field } = textField(names.length ? "Find a class, or name a new one" : "Name of the new class");
  const submit = el("button", { class: "primary" }, "New class");
  const form = el("form", { class: "row" }, field, submit);

  /** @param {string} name */
  async function choose(name) {
    showMessage(message, "");
    for (const button of dialog.querySelectorAll("button")) button.disabled = true;
    try {
      await act(name);
      dialog.close();
    } catch (error) {
      showMessage(message, error.message);
      for (const button of dialog.querySelectorAll("button")) button.disabled = false;
    }
  }

  function show() {
    const sought = input.value.trim().toLowerCase();
    const matches = names.filter((name) => name.toLowerCase().includes(sought));
    list.replaceChildren(
      ...matches.map((name) =>
        el("li", {}, el("button", { type: "button", onclick: () => choose(name) },
          el("span", {}, name), el("span", { class: "key" }, number(sizes.get(name) ?? 0))))),
    );
    submit.textContent = names.some((name) => name.toLowerCase() === sought) ? "This class" : "New class";
  }

  input.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = input.value.trim();
    choose(store.classNames.find((name) => name.toLowerCase() === typed.toLowerCase()) ?? typed);
  });
  const { dialog } = openDialog(title, { kind: "small", body: [form, message, list] });
  show();
  (list.querySelector("button") ?? input).focus();
}
