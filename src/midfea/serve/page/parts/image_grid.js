// A grid of any number of images, of which only those in sight are elements: 5,000 are as quick as 50.

import { thumbnailUrl } from "../core/api.js";
import { el } from "../core/dom.js";
import { GAP_PIXELS, gridHeights, gridLayout, pagesOf, tileByKey, tilesInSight } from "../core/grid_layout.js";

/** @import { ImagePage, WorkspaceImage } from "../core/types.js" */

const PAGE_SIZE = 100; // images asked for at a time

/**
 * @typedef {object} GridOptions
 * @property {string} label
 * @property {(offset: number, limit: number) => Promise<ImagePage>} load
 * @property {(index: number) => void} open an image was chosen
 * @property {number} [minTile] pixels
 * @property {number} [maxRows] shown without scrolling
 * @property {(image: WorkspaceImage) => string} [caption] a line below the image
 * @property {number} [captionHeight] pixels
 * @property {(message: string) => void} [failed]
 */

export class ImageGrid {
  total = 0;
  /** @type {Map<number, WorkspaceImage>} */
  images = new Map(); // by index, of the pages that were loaded
  /** @type {Map<number, Promise<void>>} */
  #pages = new Map();
  /** @type {Map<number, HTMLElement>} */
  #tiles = new Map(); // by index
  #active = 0; // the tile that the tab key reaches
  #age = 0; // answers to older requests are dropped
  #frame = 0;

  /** @param {GridOptions} options */
  constructor(options) {
    this.options = { minTile: 72, maxRows: 3, captionHeight: 0, caption: () => "", failed: () => {}, ...options };
    this.sheet = el("div", { class: "sheet" });
    this.element = el("div", { class: "grid", role: "group", "aria-label": options.label }, this.sheet);
    this.element.addEventListener("scroll", () => this.#drawSoon(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => {
      const tile = /** @type {Element} */ (event.target).closest("button[data-index]");
      if (tile) this.options.open(Number(tile.getAttribute("data-index")));
    });
    new ResizeObserver(() => this.#drawSoon()).observe(this.element);
  }

  /** Load again what is in sight; the present tiles stay until the answer comes. */
  async refresh() {
    this.#age += 1;
    this.#pages.clear();
    const { first, last } = this.#inSight();
    const pages = pagesOf(first, last, PAGE_SIZE);
    const before = this.images;
    this.images = new Map(before);
    const age = this.#age;
    await Promise.all(pages.map((page) => this.#page(page)));
    if (age !== this.#age) return;
    for (const index of before.keys()) if (!pages.includes(Math.floor(index / PAGE_SIZE))) this.images.delete(index);
    this.#draw();
  }

  count() {
    return this.total;
  }

  /** A promise of the image at an index, null beyond the end. @param {number} index */
  async at(index) {
    if (index < 0) return null;
    if (!this.images.has(index)) await this.#page(Math.floor(index / PAGE_SIZE));
    return index < this.total ? (this.images.get(index) ?? null) : null;
  }

  /** @param {number} page */
  #page(page) {
    const loading = this.#pages.get(page) ?? this.#load(page, this.#age);
    this.#pages.set(page, loading);
    return loading;
  }

  /** @param {number} page @param {number} age */
  async #load(page, age) {
    const start = page * PAGE_SIZE;
    let answer;
    try {
      answer = await this.options.load(start, PAGE_SIZE);
    } catch (error) {
      if (age === this.#age) {
        this.#pages.delete(page);
        this.options.failed(error.message);
      }
      return;
    }
    if (age !== this.#age) return;
    this.total = answer.total;
    for (let i = start; i < start + PAGE_SIZE; i++) this.images.delete(i);
    answer.images.forEach((image, i) => this.images.set(start + i, image));
    this.options.failed("");
    this.#draw();
  }

  #drawSoon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #layout() {
    const { minTile, captionHeight } = this.options;
    return gridLayout({ width: this.element.clientWidth, minTile, captionHeight });
  }

  #inSight() {
    const layout = this.#layout();
    const { scrollTop, clientHeight } = this.element;
    const height = clientHeight || this.options.maxRows * layout.step;
    return tilesInSight(layout, { scrollTop, height, total: this.total });
  }

  #draw() {
    if (!this.element.isConnected || !this.element.clientWidth) return;
    const layout = this.#layout();
    const { whole, visible } = gridHeights(layout, this.total, this.options.maxRows);
    this.sheet.style.height = `${whole}px`;
    this.element.style.height = `${visible}px`;
    this.#active = Math.max(0, Math.min(this.#active, this.total - 1));
    const { first, last } = this.#inSight();
    for (const [index, tile] of this.#tiles) {
      if (index >= first && index < last) continue;
      if (tile === document.activeElement && index < this.total) continue; // the focus must not get lost
      tile.remove();
      this.#tiles.delete(index);
    }
    for (let index = first; index < last; index++) {
      const image = this.images.get(index);
      if (!image) this.#page(Math.floor(index / PAGE_SIZE));
      this.#drawTile(this.#tileAt(index, layout), index, image);
    }
  }

  /** @param {number} index @param {ReturnType<typeof gridLayout>} layout */
  #tileAt(index, { columns, side, step }) {
    let tile = this.#tiles.get(index);
    if (!tile) {
      tile = el("button", { type: "button", class: "tile", "data-index": index });
      const after = [...this.#tiles.keys()].filter((i) => i > index).sort((a, b) => a - b)[0];
      this.sheet.insertBefore(tile, this.#tiles.get(after) ?? null); // in order, for the screen reader
      this.#tiles.set(index, tile);
    }
    tile.tabIndex = index === this.#active ? 0 : -1;
    Object.assign(tile.style, {
      left: `${(index % columns) * (side + GAP_PIXELS)}px`,
      top: `${Math.floor(index / columns) * step}px`,
      width: `${side}px`,
      height: `${side + this.options.captionHeight}px`,
    });
    return tile;
  }

  /** @param {HTMLElement} tile @param {number} index @param {WorkspaceImage | undefined} image */
  #drawTile(tile, index, image) {
    const caption = image ? this.options.caption(image) : "";
    const label = `${image ? (image.name ?? caption) : "image"}, ${index + 1} of ${this.total}`;
    if (tile.getAttribute("aria-label") !== label) tile.setAttribute("aria-label", label);
    const content = image ? `${image.id} ${caption}` : "";
    if (tile.dataset.content === content) return;
    tile.dataset.content = content;
    tile.title = image?.name ?? "";
    if (!image) return tile.replaceChildren();
    const thumbnail = el("img", { src: thumbnailUrl(image.id), alt: "", loading: "lazy", decoding: "async" });
    tile.replaceChildren(thumbnail, ...(caption ? [el("span", { class: "caption" }, caption)] : []));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = tileByKey(event.key, this.#active, this.#layout(), this.total);
    if (target === undefined) return;
    event.preventDefault();
    if (target !== null) this.focus(target);
  }

  /** Bring an image into sight and put the focus on it. @param {number} index */
  focus(index) {
    if (!this.total) return;
    this.#active = Math.min(index, this.total - 1);
    const { columns, step } = this.#layout();
    const top = Math.floor(this.#active / columns) * step;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + step > scrollTop + clientHeight) this.element.scrollTop = top + step - clientHeight;
    this.#draw();
    this.#tiles.get(this.#active)?.focus({ preventScroll: true });
  }
}
