// Elements made from code. Text always goes in as text: a class named <b> is shown as such.

/** An element; `on...` attributes are listeners, false and null leave an attribute out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A button that does something; `attributes` as of `el`. */
export function button(text, act, attributes = {}) {
  return el("button", { type: "button", onclick: act, ...attributes }, text);
}

/** An unseen field for files that a button opens; `take` gets what was chosen, and the field is free again. */
export function filePicker(label, attributes, take) {
  const input = el("input", { type: "file", hidden: true, "aria-label": label, ...attributes });
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = "";
    if (files.length) take(files);
  });
  return input;
}

export const byId = (id) => document.getElementById(id);

/** Write text only where it differs, so that a screen reader does not read it again at every poll. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A message at the place where something happened; empty text takes it away. */
export function tell(place, text, kind = "error") {
  place.className = text ? `message ${kind}` : "message";
  say(place, text);
}

let counter = 0;
/** An id that nothing else on the page has. */
export const freshId = () => `made-${++counter}`;
