// Where the tiles of a grid lie, and which of them are in sight: arithmetic without elements.

export const GAP_PIXELS = 6;

/**
 * Columns, the side of a tile and the distance from one row to the next.
 * @param {{width: number, minTile: number, captionHeight: number}} sizes in pixels
 */
export function gridLayout({ width, minTile, captionHeight }) {
  const columns = Math.max(1, Math.floor((width + GAP_PIXELS) / (minTile + GAP_PIXELS)));
  const side = (width - GAP_PIXELS * (columns - 1)) / columns;
  return { columns, side, step: side + captionHeight + GAP_PIXELS };
}

/**
 * The tiles from `first` up to `last` (exclusive) that are in sight, with a row above and below.
 * @param {{columns: number, step: number}} layout
 * @param {{scrollTop: number, height: number, total: number}} view
 */
export function tilesInSight({ columns, step }, { scrollTop, height, total }) {
  const top = Math.floor(scrollTop / step) - 1;
  const rows = Math.ceil(height / step) + 2;
  const first = Math.max(0, top * columns);
  return { first, last: Math.max(first, Math.min(total, (top + rows) * columns)) };
}

/**
 * Height of all rows, and of the visible part: a few rows and a third of the next.
 * @param {{columns: number, step: number}} layout
 * @param {number} total
 * @param {number} maxRows
 */
export function gridHeights({ columns, step }, total, maxRows) {
  const rows = Math.ceil(total / columns);
  const whole = Math.max(0, rows * step - GAP_PIXELS);
  return { whole, visible: rows > maxRows ? (maxRows + 1 / 3) * step : whole };
}

/**
 * The tile that a key leads to; null if there is none, undefined if the key means nothing here.
 * @param {string} key
 * @param {number} index
 * @param {{columns: number}} layout
 * @param {number} total
 */
export function tileByKey(key, index, { columns }, total) {
  /** @type {Record<string, number>} */
  const targets = {
    ArrowLeft: index - 1, ArrowRight: index + 1, ArrowUp: index - columns, ArrowDown: index + columns,
    Home: 0, End: total - 1,
  };
  if (!(key in targets)) return undefined;
  const target = targets[key];
  return target >= 0 && target < total ? target : null;
}

/**
 * The pages of images that hold the tiles from `first` up to `last`.
 * @param {number} first
 * @param {number} last
 * @param {number} pageSize
 */
export function pagesOf(first, last, pageSize) {
  const start = Math.floor(first / pageSize);
  const end = Math.floor(Math.max(first, last - 1) / pageSize);
  return Array.from({ length: end - start + 1 }, (_, i) => start + i);
}
