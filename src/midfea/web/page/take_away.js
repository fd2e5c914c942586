// Downloads, and opening what was taken away before.

import { api } from "./api.js";
import { ask } from "./dialogs.js";
import { byId, el, say, tell } from "./dom.js";
import { filesChosen } from "./dropped.js";
import { refresh, store } from "./state.js";
import { bytes, count } from "./words.js";

const DOWNLOADS = [
  { what: "model", needs: "model", title: "Model", note: "For midfea on any machine: midfea predict, Python, this page.", file: "model.midfea" },
  { what: "onnx", needs: "model", title: "ONNX file", note: "For ONNX Runtime in other languages and on other devices.", file: "model.onnx" },
  { what: "report", needs: "model", title: "Report", note: "One HTML file that shows how good the model is and why. This can take a moment.", file: "report.html" },
  { what: "images", needs: "images", title: "Labelled images", note: "A zip of a folder for each class.", file: "images.zip", stream: true },
  { what: "labels", needs: "images", title: "Labels", note: "A table (CSV) of files and classes.", file: "labels.csv" },
];

const offers = new Map();

export function startTakeAway({ takeFolder }) {
  for (const each of DOWNLOADS) byId("downloads").append(download(each));
  byId("openings").append(openModel(), openImages(takeFolder));
  store.addEventListener("change", update);
}

function update() {
  const { state } = store;
  say(byId("workspace-path"), state.workspace);
  for (const { what, needs } of DOWNLOADS) {
    const missing = needs === "model" ? !state.model : !state.images;
    const { button, reason } = offers.get(what);
    if (!button.dataset.busy) button.disabled = missing;
    say(reason, missing ? (needs === "model" ? "There is no model yet." : "There are no images yet.") : "");
  }
}

function offer(title, note, controls, extra = []) {
  return el("li", {}, el("div", {}, el("h3", {}, title), el("p", { class: "key" }, note), ...extra), el("div", { class: "buttons" }, controls));
}

function download({ what, title, note, file, stream }) {
  const reason = el("p", { class: "key" });
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const button = el("button", { type: "button", class: "primary", "aria-label": `Download: ${title}` }, "Download");
  button.addEventListener("click", async () => {
    tell(message, "");
    // Images may be gigabytes: the browser takes them as they come. The rest is looked at first, so that a
    // refusal is shown here and not saved as a file.
    if (stream) return save(`api/download/${what}`, file);
    button.disabled = true;
    button.dataset.busy = "1";
    tell(status, "Being made …", "plain");
    try {
      const response = await api.download(what);
      const blob = await response.blob();
      const url = URL.createObjectURL(blob);
      save(url, named(response) ?? file);
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      tell(status, `Downloaded, ${bytes(blob.size)}.`, "good");
    } catch (error) {
      tell(status, "");
      tell(message, error.message);
    }
    delete button.dataset.busy;
    button.disabled = false;
  });
  offers.set(what, { button, reason });
  return offer(title, note, [button], [reason, status, message]);
}

function save(href, name) {
  const link = el("a", { href, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
}

function named(response) {
  return /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
}

function openModel() {
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const input = el("input", { type: "file", accept: ".midfea", hidden: true, "aria-label": "Model file" });
  const open = async (file) => {
    tell(message, "");
    tell(status, "Opening …", "plain");
    try {
      await api.openModel(file);
      await refresh();
      const { model } = store.state;
      tell(status, `Opened: it knows ${count(model.classes.length, "class", "classes")}.`, "good");
    } catch (error) {
      tell(status, "");
      tell(message, error.message);
    }
  };
  input.addEventListener("change", () => {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    if (!store.state.model) return open(file);
    ask("Replace the model?", {
      fields: [el("p", {}, `The model of this workspace is replaced by ${file.name}. Download it first if you want to keep it. Your images stay.`)],
      yes: "Replace",
      act: () => void open(file),
    });
  });
  const button = el("button", { type: "button", onclick: () => input.click() }, "Open a model …");
  return offer("A model", "A .midfea file, from here or from midfea train.", [button, input], [status, message]);
}

function openImages(takeFolder) {
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const zip = el("input", { type: "file", accept: ".zip,application/zip", hidden: true, "aria-label": "Zip of class folders" });
  const folder = el("input", { type: "file", webkitdirectory: true, multiple: true, hidden: true, "aria-label": "Folder of class folders" });
  const refused = el("ul", { class: "refused" });
  zip.addEventListener("change", async () => {
    const [file] = zip.files;
    zip.value = "";
    if (!file) return;
    tell(message, "");
    refused.replaceChildren();
    tell(status, `Opening ${file.name} …`, "plain");
    try {
      const found = await api.openImages(file);
      const added = Array.isArray(found.accepted) ? found.accepted.length : found.accepted;
      tell(status, `${count(added, "image")} added.`, "good");
      if (found.refused.length) tell(message, `${count(found.refused.length, "file was", "files were")} not taken:`);
      refused.replaceChildren(...found.refused.slice(0, 200).map((each) => el("li", {}, el("b", {}, each.name), ` ${each.error}`)));
      await refresh();
    } catch (error) {
      tell(status, "");
      tell(message, error.message);
    }
  });
  folder.addEventListener("change", () => {
    const found = filesChosen(folder);
    folder.value = "";
    takeFolder(found);
  });
  return offer("Images", "A zip, or a folder, that holds a folder of images for each class. They are added to those that are here.", [
    el("button", { type: "button", onclick: () => zip.click() }, "Open a zip …"),
    el("button", { type: "button", onclick: () => folder.click() }, "Open a folder …"), zip, folder,
  ], [status, message, refused]);
}
