// Which folders of dropped files are classes, as `load_folder` sees them without the folders around them.

import assert from "node:assert/strict";
import test from "node:test";

import { groupByClass, isImage, isSystemFile } from "../../src/midfea/serve/page/core/class_folders.js";

const ENDINGS = [".png", ".jpg"];

function found(path, type = "") {
  const parts = path.split("/");
  return { file: { name: parts.pop(), type }, path: parts };
}

const FOLDERS = [
  [["cats/1.png", "dogs/2.png"], { cats: 1, dogs: 1 }],
  [["pets/cats/1.png", "pets/dogs/2.png", "pets/notes.txt"], { cats: 1, dogs: 1 }],
  [["download/pets/cats/1.png", "download/pets/dogs/2.png"], { cats: 1, dogs: 1 }],
  [["pets/cats/1.png", "pets/cats/old/2.png", "pets/dogs/old/3.png"], { cats: 2, dogs: 1 }],
  [["cats/1.png", "cats/old/2.png"], { cats: 2 }],
  [["a/cats/1.png", "a/dogs/2.png", "b/cats/3.png", "b/dogs/4.png"], { cats: 2, dogs: 2 }],
  [["1.png"], {}],
];

for (const [paths, sizes] of FOLDERS) {
  test(`classes of ${paths.join(", ")}`, () => {
    const { classes } = groupByClass(paths.map((path) => found(path)), ENDINGS);
    assert.deepEqual(Object.fromEntries([...classes].map(([name, files]) => [name, files.length])), sizes);
  });
}

test("files in no folder are loose, whatever they are; files in folders that are no images are others", () => {
  const { loose, others } = groupByClass(["1.png", "a.txt", "cats/2.png", "cats/b.txt"].map((p) => found(p)), ENDINGS);
  assert.deepEqual(loose.map(({ name }) => name), ["1.png", "a.txt"]);
  assert.deepEqual(others.map(({ name }) => name), ["b.txt"]);
});

test("an image is known by its ending, or by its type", () => {
  assert.ok(isImage({ name: "PHOTO.JPG", type: "" }, ENDINGS));
  assert.ok(isImage({ name: "photo", type: "image/heic" }, ENDINGS));
  assert.ok(!isImage({ name: "png", type: "" }, ENDINGS));
  assert.ok(!isImage({ name: "notes.txt", type: "text/plain" }, ENDINGS));
});

test("files of the operating system are left out", () => {
  for (const name of [".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX"]) assert.ok(isSystemFile(name), name);
  for (const name of ["1.png", "thumbs", "macosx"]) assert.ok(!isSystemFile(name), name);
});
