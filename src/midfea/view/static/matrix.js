// Arrow keys go through a confusion matrix, from one cell that holds images to the next.
// It runs as it is in a report, and as a module in the page of `midfea serve`.
document.addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  const button = event.target.closest(".matrix button[data-cell]");
  if (!step || !button) return;
  event.preventDefault();
  const table = button.closest(".matrix");
  const size = table.rows.length - 1;
  let [row, column] = button.dataset.cell.split("-").map(Number);
  for (;;) {
    row += step[0];
    column += step[1];
    if (row < 0 || column < 0 || row >= size || column >= size) return;
    const next = table.querySelector(`button[data-cell="${row}-${column}"]`);
    if (next) return next.focus();
  }
});
