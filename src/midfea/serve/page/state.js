// What the server says of the workspace, asked again and again so that several tabs agree.

import { api } from "./api.js";

const WORKING = 500; // milliseconds between two questions while a training runs
const RESTING = 2000;

export const store = new EventTarget(); // "change": the state is another; "lost" and "found": the server
store.state = null;

let timer = 0;
let asking = null;
let last = "";
let lost = false;

/** Ask now; resolves when the answer is shown. Called after everything this page changes. */
export function refresh() {
  // An answer under way may be older than the change: ask once more after it.
  asking = asking ? asking.then(ask) : ask();
  return asking;
}

async function ask() {
  clearTimeout(timer);
  try {
    const state = await api.state();
    if (lost) store.dispatchEvent(new Event("found"));
    lost = false;
    const told = JSON.stringify(state);
    if (told !== last) {
      last = told;
      store.state = state;
      store.dispatchEvent(new Event("change"));
    }
  } catch (error) {
    lost = true;
    store.dispatchEvent(new CustomEvent("lost", { detail: error.message }));
  } finally {
    asking = null;
    later();
  }
}

function later() {
  clearTimeout(timer);
  if (document.hidden) return;
  timer = setTimeout(refresh, running() ? WORKING : RESTING);
}

export const running = () => store.state?.job?.state === "running";
export const classNames = () => (store.state?.classes ?? []).map((each) => each.name);

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
