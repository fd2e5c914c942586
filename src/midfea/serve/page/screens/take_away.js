// The take-away screen: downloads, and opening what was downloaded before.

import { api } from "../core/api.js";
import { button, byId, el, filePicker, setText, showMessage } from "../core/dom.js";
import { store } from "../core/store.js";
import { bytes, count } from "../core/text.js";
import { confirmDialog } from "../parts/dialogs.js";
import { chosenFiles } from "../parts/drop_zone.js";
import { refusedList, refusedTitle } from "../parts/refused_files.js";

/** @typedef {import("../core/class_folders.js").FoundFile<File>} FoundFile */
/** @typedef {{kind: string, needs: string, title: string, file: string, note: string, stream?: boolean}} Download */

/** @type {Download[]} */
const DOWNLOADS = [
  {
    kind: "model", needs: "model", title: "Model", file: "model.midfea",
    note: "For midfea on any machine: midfea predict, Python, this page.",
  },
  {
    kind: "onnx", needs: "model", title: "ONNX file", file: "model.onnx",
    note: "For ONNX Runtime in other languages and on other devices.",
  },
  {
    kind: "report", needs: "model", title: "Report", file: "report.html",
    note: "One HTML file that shows how good the model is and why. This can take a moment.",
  },
  {
    kind: "images", needs: "images", title: "Labelled images", file: "images.zip", stream: true,
    note: "A zip of a folder for each class.",
  },
  {
    kind: "labels", needs: "images", title: "Labels", file: "labels.csv",
    note: "A table (CSV) of files and classes.",
  },
];
const NO_MODEL = "There is no model yet.";
const NO_IMAGES = "There are no images yet.";

/** @type {Map<string, {control: HTMLButtonElement, reason: HTMLElement}>} */
const offers = new Map();

/** @param {{addFiles: (files: FoundFile[]) => void}} options */
export function startTakeAway({ addFiles }) {
  for (const entry of DOWNLOADS) byId("downloads").append(download(entry));
  byId("openings").append(openModel(), openImages(addFiles));
  store.addEventListener("change", update);
}

function update() {
  const { state } = store;
  setText(byId("workspace-path"), state.workspace);
  for (const { kind, needs } of DOWNLOADS) {
    const missing = state.missing[kind] ?? (needs === "model" ? !state.model && NO_MODEL : !state.images && NO_IMAGES);
    const offered = offers.get(kind);
    if (!offered) continue;
    const { control, reason } = offered;
    if (!control.dataset.busy) control.disabled = Boolean(missing);
    setText(reason, missing || "");
  }
}

/** @param {string} title @param {string} note @param {Node[]} controls @param {Node[]} extra */
function offer(title, note, controls, extra) {
  return el("li", {},
    el("div", {}, el("h3", {}, title), el("p", { class: "key" }, note), extra),
    el("div", { class: "buttons" }, controls));
}

/** @param {Download} entry */
function download({ kind, title, note, file, stream }) {
  const reason = el("p", { class: "key" });
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const control = button("Download", async () => {
    showMessage(message, "");
    // Images may be gigabytes: the browser takes them as they come. Other files are loaded first, so that
    // a refusal is shown here and not saved as a file.
    if (stream) return save(`api/download/${kind}`, file);
    control.disabled = true;
    control.dataset.busy = "1";
    showMessage(status, "Being made …", "plain");
    try {
      const response = await api.download(kind);
      const blob = await response.blob();
      const url = URL.createObjectURL(blob);
      save(url, fileName(response) ?? file);
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      showMessage(status, `Downloaded, ${bytes(blob.size)}.`, "good");
    } catch (error) {
      showMessage(status, "");
      showMessage(message, error.message);
    }
    delete control.dataset.busy;
    control.disabled = false;
  }, { class: "primary", "aria-label": `Download: ${title}` });
  offers.set(kind, { control, reason });
  return offer(title, note, [control], [reason, status, message]);
}

/** @param {string} href @param {string} name */
function save(href, name) {
  const link = el("a", { href, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
}

/** The name that the server gives a file. @param {Response} response */
function fileName(response) {
  return /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
}

function openModel() {
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });

  /** @param {File} file */
  async function open(file) {
    showMessage(message, "");
    showMessage(status, "Opening …", "plain");
    try {
      const { classes } = await api.openModel(file);
      await store.refresh();
      showMessage(status, `Opened: it knows ${count(classes.length, "class", "classes")}.`, "good");
    } catch (error) {
      showMessage(status, "");
      showMessage(message, error.message);
    }
  }

  /** @param {File} file */
  function confirmOpening(file) {
    confirmDialog("Replace the model?", {
      fields: [el("p", {}, `The model of this workspace is replaced by ${file.name}. Download it first if you want `
        + "to keep it. Your images stay.")],
      yes: "Replace",
      act: () => void open(file), // the dialog closes at once
    });
  }

  const input = filePicker("Model file", { accept: ".midfea" }, ([file]) => (store.state.model ? confirmOpening(file) : open(file)));
  const control = button("Open a model …", () => input.click());
  return offer("A model", "A .midfea file, from here or from midfea train.", [control, input], [status, message]);
}

/** @param {(files: FoundFile[]) => void} addFiles */
function openImages(addFiles) {
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const list = el("div", {});

  /** @param {File[]} files */
  async function open([file]) {
    showMessage(message, "");
    list.replaceChildren();
    showMessage(status, `Opening ${file.name} …`, "plain");
    try {
      const { accepted, refused } = await api.openImages(file);
      showMessage(status, `${count(accepted.length, "image")} added.`, "good");
      if (refused.length) {
        showMessage(message, refusedTitle(refused));
        list.append(refusedList(refused));
      }
      await store.refresh();
    } catch (error) {
      showMessage(status, "");
      showMessage(message, error.message);
    }
  }

  const zip = filePicker("Zip of class folders", { accept: ".zip,application/zip" }, open);
  const folder = filePicker("Folder of images to open", { webkitdirectory: true, multiple: true }, (files) =>
    addFiles(chosenFiles(files)));
  const note = "A zip, or a folder, that holds a folder of images for each class. They are added to the images that are here.";
  return offer("Images", note, [
    button("Open a zip …", () => zip.click()), button("Open a folder …", () => folder.click()), zip, folder,
  ], [status, message, list]);
}
