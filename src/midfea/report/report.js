// Cells of the confusion matrix open the images behind them. Text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const dialog = byId("images");
  let opener = null;

  function figure([file, name, confidence]) {
    const image = document.createElement("img");
    image.src = "data:image/webp;base64," + file;
    image.alt = name;
    const caption = document.createElement("figcaption");
    caption.append(`confidence ${Math.round(100 * confidence)} %`, document.createElement("br"), name);
    const box = document.createElement("figure");
    box.append(image, caption);
    return box;
  }

  function open(cell) {
    const [label, predicted] = cell.split("-").map((i) => data.classes[i]);
    const correct = label === predicted;
    const images = (data.cells[cell] || []).map((i) => data.images[i]);
    images.sort((a, b) => (correct ? a[2] - b[2] : b[2] - a[2]));
    const total = data.counts[cell];
    const missing = total - images.length;
    byId("images-title").textContent = correct ? `${label}, predicted correctly` : `${label} predicted as ${predicted}`;
    byId("images-note").textContent = total === 1 ? "1 image"
      : `${total} images, the ${correct ? "least" : "most"} confident first`
        + (missing ? `; ${missing} of them left out to keep the file small` : "");
    byId("images-list").replaceChildren(...images.map(figure));
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
})();
