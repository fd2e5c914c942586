// Files on their way to the server: in batches, a few requests at a time, and which were refused.

import { api } from "../core/api.js";
import { store } from "../core/store.js";
import { uploadBatches } from "../core/upload_batches.js";

/** @import { Refusal } from "../core/types.js" */

const MAX_REQUESTS = 3; // at a time
const MAX_ATTEMPTS = 3;
const RETRY_MS = 400;

/** The files of one class. */
class ClassUpload {
  total = 0;
  done = 0;
  /** @type {Refusal[]} */
  refused = [];

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  get busy() {
    return this.done < this.total;
  }
}

/** Events: "change", and "idle" when everything was sent. */
class UploadQueue extends EventTarget {
  /** @type {Map<string, ClassUpload>} */
  byClass = new Map();
  /** @type {{upload: ClassUpload, files: File[]}[]} */
  waiting = [];
  /** @type {Set<AbortController>} */
  underWay = new Set();
  all = { total: 0, done: 0 }; // of every class, since nothing was under way

  get busy() {
    return this.underWay.size > 0 || this.waiting.length > 0;
  }

  /** @param {string} name */
  get(name) {
    return this.byClass.get(name);
  }

  /** @param {string} name @param {File[]} files */
  add(name, files) {
    const upload = this.byClass.get(name) ?? new ClassUpload(name);
    this.byClass.set(name, upload);
    if (!this.busy) this.all = { total: 0, done: 0 };
    if (!upload.busy) Object.assign(upload, { total: 0, done: 0, refused: [] });
    this.#plan(upload, files.length);
    const { batches, refused } = uploadBatches(files, store.latest?.limits);
    upload.refused.push(...refused);
    this.#finish(upload, refused.length);
    for (const batch of batches) this.waiting.push({ upload, files: batch });
    this.#changed();
    this.#sendNext();
    this.#ifIdle();
  }

  /** Forget what was refused. @param {string} name */
  dismiss(name) {
    this.byClass.delete(name);
    this.#changed();
  }

  /** Send again what did not get through. @param {string} name */
  retry(name) {
    const files = (this.byClass.get(name)?.refused ?? []).map(({ file }) => file).filter((file) => file instanceof File);
    this.byClass.delete(name);
    this.add(name, files);
  }

  /** Leave out what has not been sent. */
  stop() {
    for (const { upload, files } of this.waiting) this.#plan(upload, -files.length);
    this.waiting = [];
    for (const controller of this.underWay) controller.abort();
    this.#changed();
  }

  #sendNext() {
    while (this.underWay.size < MAX_REQUESTS) {
      const next = this.waiting.shift();
      if (!next) return;
      const controller = new AbortController();
      this.underWay.add(controller);
      this.#send(next.upload, next.files, controller.signal).finally(() => {
        this.underWay.delete(controller);
        this.#changed();
        this.#sendNext();
        this.#ifIdle();
      });
    }
  }

  /** @param {ClassUpload} upload @param {File[]} files @param {AbortSignal} signal */
  async #send(upload, files, signal) {
    for (let attempt = 1; ; attempt++) {
      try {
        const { refused } = await api.upload(upload.name, files, signal);
        upload.refused.push(...refused);
        return this.#finish(upload, files.length);
      } catch (error) {
        if (error.name === "AbortError") return this.#plan(upload, -files.length);
        // Sending the same file twice does no harm: the server knows it by its content.
        if (error.status === 0 && attempt < MAX_ATTEMPTS) {
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS * attempt));
          continue;
        }
        const again = error.status === 0 || error.status >= 500;
        upload.refused.push(...files.map((file) => ({ name: file.name, error: error.message, file: again && file })));
        return this.#finish(upload, files.length);
      }
    }
  }

  /** @param {ClassUpload} upload @param {number} n */
  #plan(upload, n) {
    upload.total += n;
    this.all.total += n;
  }

  /** @param {ClassUpload} upload @param {number} n */
  #finish(upload, n) {
    upload.done += n;
    this.all.done += n;
  }

  #ifIdle() {
    if (!this.busy) store.refresh().then(() => this.dispatchEvent(new Event("idle")));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const uploads = new UploadQueue();
window.addEventListener("beforeunload", (event) => uploads.busy && event.preventDefault());
