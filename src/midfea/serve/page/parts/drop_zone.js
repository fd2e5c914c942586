// Files and folders that are dropped on an element, or chosen, with the folders that lead to them.

import { isSystemFile } from "../core/class_folders.js";

/** @typedef {import("../core/class_folders.js").FoundFile<File>} FoundFile */

/**
 * The files of a drop.
 * @param {DataTransfer} transfer
 * @returns {Promise<FoundFile[]>}
 */
async function droppedFiles(transfer) {
  // Entries must be asked for before the first wait: afterwards the browser has forgotten the drop.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: [] }));
  return (await Promise.all(entries.map((entry) => walk(entry, [])))).flat();
}

/**
 * @param {any} entry a FileSystemFileEntry or FileSystemDirectoryEntry
 * @param {string[]} path
 * @returns {Promise<FoundFile[]>}
 */
async function walk(entry, path) {
  if (isSystemFile(entry.name)) return [];
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path }];
  const reader = entry.createReader();
  const files = [];
  for (;;) {
    // A reader returns a hundred entries at a time.
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    const below = await Promise.all(entries.map((/** @type {any} */ inner) => walk(inner, [...path, entry.name])));
    files.push(...below.flat());
  }
}

/**
 * Files that were chosen, one by one or as a folder.
 * @param {File[]} files
 * @returns {FoundFile[]}
 */
export function chosenFiles(files) {
  const withPaths = files.map((file) => ({ file, path: file.webkitRelativePath.split("/").slice(0, -1) }));
  return withPaths.filter(({ file, path }) => ![...path, file.name].some(isSystemFile));
}

/**
 * Make an element take drops; `take` gets a promise of the files.
 * @param {HTMLElement} element
 * @param {(files: Promise<FoundFile[]>) => void} take
 */
export function makeDropZone(element, take) {
  let depth = 0; // enter and leave also come from the elements inside
  /** @param {string} kind @param {(transfer: DataTransfer) => void} act */
  const on = (kind, act) =>
    element.addEventListener(kind, (event) => {
      const transfer = /** @type {DragEvent} */ (event).dataTransfer;
      if (!transfer || ![...transfer.types].includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      act(transfer);
      element.classList.toggle("over-drop", depth > 0);
    });
  on("dragenter", () => (depth += 1));
  on("dragover", (transfer) => (transfer.dropEffect = "copy"));
  on("dragleave", () => (depth = Math.max(0, depth - 1)));
  on("drop", (transfer) => {
    depth = 0;
    take(droppedFiles(transfer));
  });
}
