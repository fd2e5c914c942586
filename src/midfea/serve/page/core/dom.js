// Elements made from code. Text always goes in as text: a class named <b> is shown as such.

/** @typedef {string | Node | null | undefined | false | ""} Child */
/** @typedef {Record<string, any>} Attributes */

/**
 * An element; `on...` attributes are listeners, `--...` style properties, false and null leave one out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * @template {HTMLElement} E
 * @param {E} element
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/**
 * Elements of HTML that the server made with midfea.view, which escapes all names.
 * @param {string} html
 */
export function fromHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/**
 * A button that does something; `attributes` as of `el`.
 * @param {string} text
 * @param {(event: Event) => void} act
 * @param {Attributes} attributes
 */
export function button(text, act, attributes = {}) {
  return el("button", { type: "button", onclick: act, ...attributes }, text);
}

/**
 * A hidden field for files that a button opens; `take` gets the files that were chosen.
 * @param {string} label
 * @param {Attributes} attributes
 * @param {(files: File[]) => void} take
 */
export function filePicker(label, attributes, take) {
  const input = el("input", { type: "file", hidden: true, "aria-label": label, ...attributes });
  onFiles(input, take);
  return input;
}

/**
 * Give chosen files to `take`, and empty the field for the next choice.
 * @param {HTMLInputElement} input
 * @param {(files: File[]) => void} take
 */
export function onFiles(input, take) {
  input.addEventListener("change", () => {
    const files = [...(input.files ?? [])];
    input.value = "";
    if (files.length) take(files);
  });
}

/**
 * An element of index.html. Its kind is not known here: say it where it matters.
 * @param {string} id
 * @returns {any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * Write text only where it differs, so that a screen reader does not read it again at every poll.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Show a message at the place where something happened; empty text removes it.
 * @param {Element} place
 * @param {string} text
 */
export function showMessage(place, text, kind = "error") {
  place.className = text ? `message ${kind}` : "message";
  setText(place, text);
}

let counter = 0;
/** An id that nothing else on the page has. */
export const newId = () => `made-${++counter}`;
