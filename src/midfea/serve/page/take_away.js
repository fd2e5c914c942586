// Downloads, and opening what was taken away before.

import { api } from "./api.js";
import { ask } from "./dialogs.js";
import { button, byId, el, filePicker, say, tell } from "./dom.js";
import { filesChosen } from "./dropped.js";
import { refusal, refusedList } from "./refused.js";
import { refresh, store } from "./state.js";
import { bytes, count } from "./words.js";

const DOWNLOADS = [
  {
    what: "model", needs: "model", title: "Model", file: "model.midfea",
    note: "For midfea on any machine: midfea predict, Python, this page.",
  },
  {
    what: "onnx", needs: "model", title: "ONNX file", file: "model.onnx",
    note: "For ONNX Runtime in other languages and on other devices.",
  },
  {
    what: "report", needs: "model", title: "Report", file: "report.html",
    note: "One HTML file that shows how good the model is and why. This can take a moment.",
  },
  {
    what: "images", needs: "images", title: "Labelled images", file: "images.zip", stream: true,
    note: "A zip of a folder for each class.",
  },
  {
    what: "labels", needs: "images", title: "Labels", file: "labels.csv",
    note: "A table (CSV) of files and classes.",
  },
];
const NO_MODEL = "There is no model yet.";
const NO_IMAGES = "There are no images yet.";

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
    const { control, reason } = offers.get(what);
    if (!control.dataset.busy) control.disabled = missing;
    say(reason, missing ? (needs === "model" ? NO_MODEL : NO_IMAGES) : "");
  }
}

function offer(title, note, controls, extra = []) {
  return el("li", {},
    el("div", {}, el("h3", {}, title), el("p", { class: "key" }, note), extra),
    el("div", { class: "buttons" }, controls));
}

function download({ what, title, note, file, stream }) {
  const reason = el("p", { class: "key" });
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const control = button("Download", async () => {
    tell(message, "");
    // Images may be gigabytes: the browser takes them as they come. The rest is looked at first, so that a
    // refusal is shown here and not saved as a file.
    if (stream) return save(`api/download/${what}`, file);
    control.disabled = true;
    control.dataset.busy = "1";
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
    delete control.dataset.busy;
    control.disabled = false;
  }, { class: "primary", "aria-label": `Download: ${title}` });
  offers.set(what, { control, reason });
  return offer(title, note, [control], [reason, status, message]);
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

  async function open(file) {
    tell(message, "");
    tell(status, "Opening …", "plain");
    try {
      await api.openModel(file);
      await refresh();
      tell(status, `Opened: it knows ${count(store.state.model.classes.length, "class", "classes")}.`, "good");
    } catch (error) {
      tell(status, "");
      tell(message, error.message);
    }
  }

  function sure(file) {
    ask("Replace the model?", {
      fields: [el("p", {}, `The model of this workspace is replaced by ${file.name}. Download it first if you want `
        + "to keep it. Your images stay.")],
      yes: "Replace",
      act: () => void open(file), // the dialog closes, and the rest is told here
    });
  }

  const input = filePicker("Model file", { accept: ".midfea" }, ([file]) => (store.state.model ? sure(file) : open(file)));
  const control = button("Open a model …", () => input.click());
  return offer("A model", "A .midfea file, from here or from midfea train.", [control, input], [status, message]);
}

function openImages(takeFolder) {
  const message = el("p", { class: "message", role: "alert" });
  const status = el("p", { class: "message", role: "status" });
  const refused = el("div", {});

  async function open([file]) {
    tell(message, "");
    refused.replaceChildren();
    tell(status, `Opening ${file.name} …`, "plain");
    try {
      const found = await api.openImages(file);
      tell(status, `${count(found.accepted.length, "image")} added.`, "good");
      if (found.refused.length) {
        tell(message, refusal(found.refused));
        refused.append(refusedList(found.refused));
      }
      await refresh();
    } catch (error) {
      tell(status, "");
      tell(message, error.message);
    }
  }

  const zip = filePicker("Zip of class folders", { accept: ".zip,application/zip" }, open);
  const folder = filePicker("Folder of images to open", { webkitdirectory: true, multiple: true }, (files) =>
    takeFolder(filesChosen(files)));
  const note = "A zip, or a folder, that holds a folder of images for each class. They are added to those that are here.";
  return offer("Images", note, [
    button("Open a zip …", () => zip.click()), button("Open a folder …", () => folder.click()), zip, folder,
  ], [status, message, refused]);
}
