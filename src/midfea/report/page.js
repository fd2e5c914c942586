"use strict";
// Cells of the confusion matrix open the images behind them. Text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dialog = document.getElementById("images");
  const title = document.getElementById("images-title");
  const note = document.getElementById("images-note");
  const list = document.getElementById("images-list");
  let opener = null;

  function figure(index) {
    const [file, name, sure] = data.images[index];
    const box = document.createElement("figure");
    const image = document.createElement("img");
    image.src = "data:image/webp;base64," + file;
    image.alt = name;
    const caption = document.createElement("figcaption");
    const label = document.createElement("span");
    label.className = "file";
    label.textContent = name;
    caption.append(sure === null ? "" : Math.round(100 * sure) + " % sure", document.createElement("br"), label);
    box.append(image, caption);
    return box;
  }

  function open(cell) {
    const [shown, said] = cell.split("-").map((i) => data.classes[i]);
    const indices = [...(data.cells[cell] || [])];
    indices.sort((a, b) => (data.images[b][2] || 0) - (data.images[a][2] || 0));
    const right = shown === said;
    title.textContent = right ? shown + ", told rightly" : shown + " taken for " + said;
    const missing = data.counts[cell] - indices.length;
    note.textContent = data.counts[cell] + (data.counts[cell] === 1 ? " image" : " images, the surest first")
      + (missing ? "; " + missing + " of them left out to keep the file small" : "");
    list.replaceChildren(...(right ? indices.reverse() : indices).map(figure));
    if (right && data.counts[cell] > 1) note.textContent = note.textContent.replace("the surest first", "the least sure first");
    dialog.showModal();
    dialog.scrollTop = 0;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-cell]");
    if (button) {
      opener = button;
      open(button.dataset.cell);
    } else if (event.target === dialog || event.target.id === "images-close") {
      dialog.close();
    }
  });
  dialog.addEventListener("close", () => opener && opener.focus());

  // Arrow keys walk through the matrix, from one cell that holds images to the next.
  document.querySelector("table.matrix").addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = steps[event.key];
    const button = event.target.closest("button[data-cell]");
    if (!step || !button) return;
    event.preventDefault();
    let [row, column] = button.dataset.cell.split("-").map(Number);
    for (;;) {
      row += step[0];
      column += step[1];
      if (row < 0 || column < 0 || row >= data.classes.length || column >= data.classes.length) return;
      const next = event.currentTarget.querySelector(`button[data-cell="${row}-${column}"]`);
      if (next) return next.focus();
    }
  });
})();
