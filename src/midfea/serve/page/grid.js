// A grid of any number of images, of which only those in sight are elements: 5,000 are as quick as 50.

import { thumbnailUrl } from "./api.js";
import { el } from "./dom.js";

const PAGE = 100; // images asked for at a time
const GAP = 6;

export class ImageGrid {
  /**
   * load(offset, limit): a promise of {total, images}; open(index): an image was chosen;
   * tile: least width; caption(image): a line below it, of `below` pixels.
   */
  constructor({ label, load, open, tile = 72, rows = 3, caption = null, below = 0, failed = () => {} }) {
    Object.assign(this, { load, open, tile, rows, caption, below: caption ? below : 0, failed });
    this.total = 0;
    this.images = new Map(); // index to image, of the pages that came
    this.asked = new Map(); // page to promise
    this.shown = new Map(); // index to element
    this.active = 0; // the one that the tab key reaches
    this.age = 0; // answers to older questions are thrown away
    this.sheet = el("div", { class: "sheet" });
    this.element = el("div", { class: "grid", role: "group", "aria-label": label }, this.sheet);
    this.element.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => {
      const tile = event.target.closest("button[data-index]");
      if (tile) this.open(Number(tile.dataset.index));
    });
    new ResizeObserver(() => this.#soon()).observe(this.element);
  }

  /** Ask again for what is in sight; what is shown stays until the answer comes. */
  async refresh() {
    this.age += 1;
    this.asked.clear();
    const { first, last } = this.#inSight();
    const pages = [];
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++) pages.push(page);
    const before = this.images;
    this.images = new Map(before);
    const age = this.age;
    await Promise.all(pages.map((page) => this.#page(page)));
    if (age !== this.age) return;
    for (const index of before.keys()) if (!pages.includes(Math.floor(index / PAGE))) this.images.delete(index);
    this.#draw();
  }

  count() {
    return this.total;
  }

  /** A promise of the image at an index, null beyond the end. */
  async at(index) {
    if (index < 0) return null;
    if (!this.images.has(index)) await this.#page(Math.floor(index / PAGE));
    return index < this.total ? (this.images.get(index) ?? null) : null;
  }

  #page(page) {
    if (!this.asked.has(page)) this.asked.set(page, this.#fetch(page, this.age));
    return this.asked.get(page);
  }

  async #fetch(page, age) {
    let found;
    try {
      found = await this.load(page * PAGE, PAGE);
    } catch (error) {
      if (age === this.age) {
        this.asked.delete(page);
        this.failed(error.message);
      }
      return;
    }
    if (age !== this.age) return;
    this.total = found.total;
    for (let i = page * PAGE; i < (page + 1) * PAGE; i++) this.images.delete(i);
    found.images.forEach((image, i) => this.images.set(page * PAGE + i, image));
    this.failed("");
    this.#draw();
  }

  #soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#draw();
    });
  }

  #measure() {
    const width = this.element.clientWidth;
    const columns = Math.max(1, Math.floor((width + GAP) / (this.tile + GAP)));
    const side = (width - GAP * (columns - 1)) / columns;
    return { columns, side, step: side + this.below + GAP };
  }

  #inSight() {
    const { columns, step } = this.#measure();
    const top = Math.floor(this.element.scrollTop / step) - 1;
    const tall = Math.ceil((this.element.clientHeight || this.rows * step) / step) + 2;
    const first = Math.max(0, top * columns);
    return { first, last: Math.max(first, Math.min(this.total, (top + tall) * columns)) };
  }

  #draw() {
    if (!this.element.isConnected || !this.element.clientWidth) return;
    const { columns, side, step } = this.#measure();
    const rows = Math.ceil(this.total / columns);
    const tall = rows > this.rows ? (this.rows + 1 / 3) * step : Math.max(0, rows * step - GAP);
    this.sheet.style.height = `${Math.max(0, rows * step - GAP)}px`;
    this.element.style.height = `${tall}px`;
    this.active = Math.max(0, Math.min(this.active, this.total - 1));
    const { first, last } = this.#inSight();
    for (const [index, tile] of this.shown) {
      if (index >= first && index < last) continue;
      if (tile === document.activeElement && index < this.total) continue; // the focus must not get lost
      tile.remove();
      this.shown.delete(index);
    }
    for (let index = first; index < last; index++) {
      const image = this.images.get(index);
      if (!image) this.#page(Math.floor(index / PAGE));
      this.#place(index, image, { columns, side, step });
    }
  }

  #place(index, image, { columns, side, step }) {
    let tile = this.shown.get(index);
    if (!tile) {
      tile = el("button", { type: "button", class: "tile", "data-index": index });
      const after = [...this.shown.keys()].filter((i) => i > index).sort((a, b) => a - b)[0];
      this.sheet.insertBefore(tile, this.shown.get(after) ?? null); // in order, for the screen reader
      this.shown.set(index, tile);
    }
    tile.tabIndex = index === this.active ? 0 : -1;
    Object.assign(tile.style, {
      left: `${(index % columns) * (side + GAP)}px`,
      top: `${Math.floor(index / columns) * step}px`,
      width: `${side}px`,
      height: `${side + this.below}px`,
    });
    const caption = image && this.caption ? this.caption(image) : "";
    const label = image ? `${image.name ?? caption}, ${index + 1} of ${this.total}` : `image ${index + 1} of ${this.total}`;
    if (tile.getAttribute("aria-label") !== label) tile.setAttribute("aria-label", label);
    const shows = image ? `${image.id} ${caption}` : "";
    if (tile.dataset.shows === shows) return;
    tile.dataset.shows = shows;
    tile.title = image?.name ?? "";
    if (!image) return tile.replaceChildren();
    const picture = el("img", { src: thumbnailUrl(image.id), alt: "", loading: "lazy", decoding: "async" });
    tile.replaceChildren(picture, ...(caption ? [el("span", { class: "caption" }, caption)] : []));
  }

  #key(event) {
    const { columns } = this.#measure();
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const wanted = this.active + step;
    const beyond = wanted < 0 || wanted >= this.total;
    if (beyond && Number.isFinite(step)) return;
    this.focus(Math.max(0, Math.min(wanted, this.total - 1)));
  }

  /** Bring an image into sight and put the focus on it. */
  focus(index) {
    if (!this.total) return;
    this.active = Math.min(index, this.total - 1);
    const { columns, step } = this.#measure();
    const top = Math.floor(this.active / columns) * step;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + step > scrollTop + clientHeight) this.element.scrollTop = top + step - clientHeight;
    this.#draw();
    this.shown.get(this.active)?.focus({ preventScroll: true });
  }
}
