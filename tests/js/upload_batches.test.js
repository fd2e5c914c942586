// Batches of files that one request can carry.

import assert from "node:assert/strict";
import test from "node:test";

import { uploadBatches } from "../../src/midfea/serve/page/core/upload_batches.js";

const files = (...sizes) => sizes.map((size, i) => ({ name: `${i}.png`, size }));

test("no file is lost, and the order stays", () => {
  const all = files(...Array.from({ length: 205 }, (_, i) => 1000 * i));
  const { batches, refused } = uploadBatches(all);
  assert.deepEqual(batches.flat(), all);
  assert.deepEqual(refused, []);
  assert.ok(batches.every((batch) => batch.length > 0 && batch.length <= 20));
});

test("a batch is at most half of what a request may have, but for a single file", () => {
  const limits = { file_bytes: 80, request_bytes: 100 };
  const { batches } = uploadBatches(files(30, 20, 1, 60, 10, 40), limits);
  assert.deepEqual(batches.map((batch) => batch.map(({ size }) => size)), [[30, 20], [1], [60], [10, 40]]);
});

test("a file that is too large is refused with the reason", () => {
  const { batches, refused } = uploadBatches(files(1e6, 33e6, 2e6), { file_bytes: 32e6, request_bytes: 64e6 });
  assert.deepEqual(batches.map((batch) => batch.map(({ name }) => name)), [["0.png", "2.png"]]);
  assert.deepEqual(refused, [{ name: "1.png", error: "33.0 MB: larger than 32.0 MB, make it smaller first" }]);
});

test("nothing gives nothing", () => {
  assert.deepEqual(uploadBatches([]), { batches: [], refused: [] });
});
