// Files on their way to the server: some at a time, a few requests beside each other, and what came of them.

import { api } from "./api.js";
import { refresh, store } from "./state.js";
import { bytes } from "./words.js";

const AT_A_TIME = 20; // files of a request
const BESIDE = 3; // requests
const TRIES = 3;

/** What happens to the files of one class. */
class Upload {
  constructor(name) {
    this.name = name;
    this.total = 0;
    this.done = 0;
    this.refused = []; // {name, error, file: only where trying again makes sense}
  }

  get busy() {
    return this.done < this.total;
  }
}

class Uploads extends EventTarget {
  constructor() {
    super();
    this.byClass = new Map();
    this.waiting = []; // {upload, files}
    this.underWay = new Set(); // abort controllers
    this.all = { total: 0, done: 0 }; // of every class, since nothing was under way
  }

  get busy() {
    return this.underWay.size > 0 || this.waiting.length > 0;
  }

  get(name) {
    return this.byClass.get(name);
  }

  add(name, files) {
    const upload = this.byClass.get(name) ?? new Upload(name);
    this.byClass.set(name, upload);
    if (!this.busy) this.all = { total: 0, done: 0 };
    if (!upload.busy) Object.assign(upload, { total: 0, done: 0, refused: [] });
    this.#planned(upload, files.length);
    for (const part of this.#batches(upload, files)) this.waiting.push({ upload, files: part });
    this.#changed();
    this.#next();
    this.#ifIdle();
  }

  /** What was refused has been read. */
  dismiss(name) {
    this.byClass.delete(name);
    this.#changed();
  }

  /** Send again what did not get through. */
  again(name) {
    const files = this.byClass.get(name).refused.map((each) => each.file).filter(Boolean);
    this.byClass.delete(name);
    this.add(name, files);
  }

  /** Leave out what has not been sent. */
  stop() {
    for (const { upload, files } of this.waiting) this.#planned(upload, -files.length);
    this.waiting = [];
    for (const each of this.underWay) each.abort();
    this.#changed();
  }

  #next() {
    while (this.underWay.size < BESIDE && this.waiting.length) {
      const { upload, files } = this.waiting.shift();
      const controller = new AbortController();
      this.underWay.add(controller);
      this.#send(upload, files, controller.signal).finally(() => {
        this.underWay.delete(controller);
        this.#changed();
        this.#next();
        this.#ifIdle();
      });
    }
  }

  async #send(upload, files, signal) {
    for (let attempt = 1; ; attempt++) {
      try {
        const { refused } = await api.upload(upload.name, files, signal);
        upload.refused.push(...refused);
        this.#done(upload, files.length);
        return;
      } catch (error) {
        if (error.name === "AbortError") {
          this.#planned(upload, -files.length);
          return;
        }
        // Sending the same file twice does no harm: the server knows it by its content.
        if (error.status === 0 && attempt < TRIES) {
          await new Promise((resolve) => setTimeout(resolve, 400 * attempt));
          continue;
        }
        const again = error.status === 0 || error.status >= 500;
        const failed = (file) => ({ name: file.name, error: error.message, file: again && file });
        upload.refused.push(...files.map(failed));
        this.#done(upload, files.length);
        return;
      }
    }
  }

  /** Groups that one request can carry; a file that none can is refused here, with the reason. */
  *#batches(upload, files) {
    const { file_bytes: ofFile = 32e6, request_bytes: ofRequest = 64e6 } = store.state?.limits ?? {};
    let batch = [];
    let size = 0;
    for (const file of files) {
      if (file.size > ofFile) {
        const error = `${bytes(file.size)}: larger than ${bytes(ofFile)}, make it smaller first`;
        upload.refused.push({ name: file.name, error });
        this.#done(upload, 1);
        continue;
      }
      if (batch.length && (batch.length === AT_A_TIME || size + file.size > ofRequest / 2)) {
        yield batch;
        [batch, size] = [[], 0];
      }
      batch.push(file);
      size += file.size;
    }
    if (batch.length) yield batch;
  }

  #planned(upload, n) {
    upload.total += n;
    this.all.total += n;
  }

  #done(upload, n) {
    upload.done += n;
    this.all.done += n;
  }

  #ifIdle() {
    if (!this.busy) refresh().then(() => this.dispatchEvent(new Event("idle")));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const uploads = new Uploads();
window.addEventListener("beforeunload", (event) => uploads.busy && event.preventDefault());
