// The learning curve as a drawing; the number of images on a logarithmic scale.

import { svg } from "./core/dom.js";
import { percent } from "./core/text.js";

const [WIDTH, HEIGHT] = [520, 240];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 24, 16, 42];

export function curve({ sizes, accuracies, deviations }) {
  let low = Math.max(0, Math.min(...accuracies.map((a, i) => a - deviations[i])));
  let high = Math.min(1, Math.max(...accuracies.map((a, i) => a + deviations[i])));
  const step = [0.01, 0.02, 0.05, 0.1, 0.2].find((each) => high - low <= 5 * each) ?? 0.2;
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  if (high - low < step) low = high - step;
  const [start, end] = [Math.log(sizes[0]), Math.log(sizes.at(-1))];
  const x = (size) => LEFT + ((WIDTH - LEFT - RIGHT) * (Math.log(size) - start)) / Math.max(end - start, 1e-9);
  const y = (share) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (share - low)) / (high - low);

  const parts = [];
  for (let i = 0; i <= Math.round((high - low) / step); i++) {
    const level = low + i * step;
    parts.push(
      svg("line", { class: "level", x1: LEFT, x2: WIDTH - RIGHT, y1: y(level), y2: y(level) }),
      svg("text", { x: LEFT - 8, y: y(level) + 4, "text-anchor": "end" }, percent(level)));
  }
  const points = sizes.map((size, i) => ({ size, accuracy: accuracies[i], deviation: deviations[i] }));
  parts.push(svg("polyline", { class: "line", points: points.map((p) => `${x(p.size)},${y(p.accuracy)}`).join(" ") }));
  for (const { size, accuracy, deviation } of points) {
    parts.push(
      svg("line", {
        class: "line", x1: x(size), x2: x(size),
        y1: y(Math.min(high, accuracy + deviation)), y2: y(Math.max(low, accuracy - deviation)),
      }),
      svg("circle", { cx: x(size), cy: y(accuracy), r: 4 }, svg("title", {}, `${size} images: ${percent(accuracy, 1)}`)),
      svg("text", { x: x(size), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, String(size)));
  }
  parts.push(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "images learned from"));
  const words = points.map((p) => `${p.size} images ${percent(p.accuracy, 1)}`).join("; ");
  const label = `Learning curve: ${words}`;
  return svg("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, parts);
}
