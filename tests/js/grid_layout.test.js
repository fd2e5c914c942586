// The arithmetic of the image grid.

import assert from "node:assert/strict";
import test from "node:test";

import { gridHeights, gridLayout, pagesOf, tileByKey, tilesInSight } from "../../src/midfea/serve/page/core/grid_layout.js";

const LAYOUT = gridLayout({ width: 312, minTile: 72, captionHeight: 0 });

test("tiles fill the width and are at least as wide as asked", () => {
  assert.deepEqual(LAYOUT, { columns: 4, side: 73.5, step: 79.5 });
  for (let width = 1; width < 2000; width += 7) {
    const { columns, side } = gridLayout({ width, minTile: 72, captionHeight: 22 });
    assert.ok(Math.abs(columns * side + (columns - 1) * 6 - width) < 1e-9);
    assert.ok(side >= 72 || columns === 1);
  }
});

test("every tile that is in view is in sight, and few others", () => {
  const { columns, step } = LAYOUT;
  for (let scrollTop = 0; scrollTop < 40 * step; scrollTop += 31) {
    const { first, last } = tilesInSight(LAYOUT, { scrollTop, height: 200, total: 1000 });
    assert.ok(first <= Math.floor(scrollTop / step) * columns);
    assert.ok(last >= Math.min(1000, Math.ceil((scrollTop + 200) / step) * columns));
    assert.ok(last - first <= 6 * columns);
  }
  assert.deepEqual(tilesInSight(LAYOUT, { scrollTop: 0, height: 200, total: 0 }), { first: 0, last: 0 });
});

test("a grid shows some rows and a part of the next", () => {
  const { step } = LAYOUT;
  assert.deepEqual(gridHeights(LAYOUT, 0, 3), { whole: 0, visible: 0 });
  assert.deepEqual(gridHeights(LAYOUT, 12, 3), { whole: 3 * step - 6, visible: 3 * step - 6 });
  assert.deepEqual(gridHeights(LAYOUT, 13, 3), { whole: 4 * step - 6, visible: (3 + 1 / 3) * step });
});

test("keys lead from tile to tile, and not beyond the ends", () => {
  const go = (key, index) => tileByKey(key, index, { columns: 4 }, 10);
  assert.deepEqual([go("ArrowRight", 3), go("ArrowLeft", 4), go("ArrowDown", 1), go("ArrowUp", 5)], [4, 3, 5, 1]);
  assert.deepEqual([go("Home", 7), go("End", 2)], [0, 9]);
  assert.deepEqual([go("ArrowRight", 9), go("ArrowLeft", 0), go("ArrowDown", 8), go("ArrowUp", 2)], [null, null, null, null]);
  assert.equal(go("Enter", 3), undefined);
  assert.equal(tileByKey("End", 0, { columns: 4 }, 0), null);
});

test("pages that hold tiles", () => {
  assert.deepEqual(pagesOf(0, 0, 100), [0]);
  assert.deepEqual(pagesOf(0, 100, 100), [0]);
  assert.deepEqual(pagesOf(90, 101, 100), [0, 1]);
  assert.deepEqual(pagesOf(250, 420, 100), [2, 3, 4]);
});
