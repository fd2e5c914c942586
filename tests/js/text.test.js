// Numbers, times and sizes as text.

import assert from "node:assert/strict";
import test from "node:test";

import { bytes, confidence, count, duration, moment, percent, shortList } from "../../src/midfea/serve/page/core/text.js";

test("counts", () => {
  assert.equal(count(1, "image"), "1 image");
  assert.equal(count(0, "image"), "0 images");
  assert.equal(count(12345, "class", "classes"), "12,345 classes");
});

test("shares", () => {
  assert.equal(percent(0.123), "12%");
  assert.equal(percent(0.123, 1), "12.3%");
  assert.equal(confidence(1), "100%");
  assert.equal(confidence(0.9999), ">99%"); // only certainty is 100%
  assert.equal(confidence(0.994), "99%");
});

test("durations", () => {
  const seconds = [-1, 0.4, 25, 59.6, 60, 200, 600, 3599, 3600, 3900, 7199];
  assert.deepEqual(seconds.map(duration), [
    "0 s", "0 s", "25 s", "1 min", "1 min", "3 min 20 s", "10 min", "1 h 0 min", "1 h 0 min", "1 h 5 min", "2 h 0 min",
  ]);
});

test("sizes", () => {
  assert.deepEqual([10, 12_345, 3_400_000, 2.5e9].map(bytes), ["1 kB", "12 kB", "3.4 MB", "2.5 GB"]);
});

test("a moment has a date if it was another day", () => {
  const now = new Date("2026-05-04T12:00:00");
  assert.ok(moment("2026-05-03T11:00:00", now).length > moment("2026-05-04T11:00:00", now).length);
});

test("long lists are cut", () => {
  assert.equal(shortList(["a", "b"]), "a, b");
  assert.equal(shortList(["a", "b", "c"], 2), "a, b …");
});
