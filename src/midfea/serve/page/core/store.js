// The state of the workspace, asked for again and again so that several tabs agree.

import { api } from "./api.js";

/** @import { State } from "./types.js" */

const TRAINING_POLL_MS = 500;
const IDLE_POLL_MS = 2000;

/** Events: "change" when the state is another, "lost" and "found" for the connection to the server. */
class Store extends EventTarget {
  /** @type {State | null} */
  latest = null;
  /** @type {Promise<void> | null} */
  #asking = null;
  #timer = 0;
  #json = "";
  #lost = false;

  /** The state; only after the first "change". @returns {State} */
  get state() {
    if (!this.latest) throw new Error("the server has not answered yet");
    return this.latest;
  }

  get training() {
    return this.latest?.job?.state === "running";
  }

  get classNames() {
    return (this.latest?.classes ?? []).map(({ name }) => name);
  }

  get imageEndings() {
    return this.latest?.image_endings ?? [];
  }

  /** Ask now; resolves when the answer is shown. Called after everything this page changes. */
  refresh() {
    // An answer under way may be older than the change: ask once more after it.
    this.#asking = this.#asking ? this.#asking.then(() => this.#ask()) : this.#ask();
    return this.#asking;
  }

  pause() {
    clearTimeout(this.#timer);
  }

  async #ask() {
    this.pause();
    try {
      const state = await api.state();
      if (this.#lost) this.dispatchEvent(new Event("found"));
      this.#lost = false;
      const json = JSON.stringify(state);
      if (json !== this.#json) {
        this.#json = json;
        this.latest = state;
        this.dispatchEvent(new Event("change"));
      }
    } catch (error) {
      this.#lost = true;
      this.dispatchEvent(new CustomEvent("lost", { detail: error.message }));
    } finally {
      this.#asking = null;
      this.pause();
      const wait = this.training ? TRAINING_POLL_MS : IDLE_POLL_MS;
      if (!document.hidden) this.#timer = setTimeout(() => this.refresh(), wait);
    }
  }
}

export const store = new Store();

document.addEventListener("visibilitychange", () => (document.hidden ? store.pause() : store.refresh()));
