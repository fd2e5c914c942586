"""Drawings in SVG: the accuracy on a scale, the learning curve."""

from __future__ import annotations

import math

from midfea.learning.curve import LearningCurve
from midfea.learning.interval import TOO_FEW, Interval
from midfea.learning.predictions import Predictions
from midfea.view.markup import text

WIDTH, HEIGHT = 520, 240  # of the curve, in units of its own
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 16, 42  # margins
MIN_GAIN = 0.01  # accuracy that the last step of the curve must bring for more images to be advised


def headlines(accuracy: Interval, predictions: Predictions) -> str:
    """The accuracy; before it the mean recall, where classes are unequal and it says more."""
    if math.isnan(accuracy.accuracy) or not predictions.unequal:
        return headline(accuracy)
    mean = headline(predictions.mean_recall_interval, "mean recall of the classes")
    return f"{mean}{headline(accuracy)}"


def headline(interval: Interval, what: str = "accuracy") -> str:
    """A share in large figures, if it is known, and its interval on a scale that ends at 100 %."""
    step = next(s for s in (0.02, 0.05, 0.1, 0.2) if interval.low >= 1 - 5 * s - 1e-9)
    n_steps = math.ceil((1 - interval.low) / step - 1e-9) or 1
    start = 1 - n_steps * step

    def x(share: float) -> float:
        return 100 * (share - start) / (1 - start)

    low, high, accuracy = x(interval.low), x(interval.high), x(interval.accuracy)
    levels = [start + i * step for i in range(n_steps + 1)]
    marks = "".join(
        f'<text x="{x(v):.1f}%" y="36" text-anchor="middle">{100 * v:.0f} %</text>' for v in levels
    )
    known = not math.isnan(interval.accuracy)
    figure = f"{interval.accuracy:.1%}" if known else "?"
    words = f"{what} on new images" if known else f"{what} on new images: {TOO_FEW}"
    line = f'<line x1="{accuracy:.1f}%" x2="{accuracy:.1f}%" y1="6" y2="24"/>' if known else ""
    return (
        f'<div class="headline"><div><p class="accuracy">{figure}</p>'
        f"<p>{words}, 95 % interval "
        f"<b>{100 * interval.low:.1f} to {100 * interval.high:.1f} %</b></p></div>"
        '<svg class="scale" aria-hidden="true"><rect class="axis" y="14" width="100%" height="2"/>'
        f'<rect class="interval" x="{low:.1f}%" y="9" width="{high - low:.1f}%" height="12" rx="6"/>'
        f"{line}{marks}</svg></div>"
    )


def verdict(curve: LearningCurve) -> str:
    """The learning curve in a sentence."""
    gain = curve.gain()
    if math.isnan(gain):
        return "There are too few images for a learning curve."
    factor = curve.sizes[-1] / curve.sizes[-2]
    brought = f"{factor:.1f} times as many images brought {100 * gain:+.1f} points of accuracy"
    if gain >= MIN_GAIN:
        return f"At the end of the curve, {brought}: more images are likely to help."
    return (
        f"At the end of the curve, {brought}: more images of the same kind will help little. "
        "Better labels, other views or another preset may."
    )


def learning_curve(curve: LearningCurve, note: str = "") -> str:
    """Would more images help? The verdict, and the drawing if there is a curve."""
    words = f"<p>{text(verdict(curve))} {text(note)}</p>"
    if not curve.sizes:
        return words
    return (
        f'{words}{curve_drawing(curve)}<p class="key">Accuracy in validation on each quarter of the '
        "images in turn, trained on parts of the rest; vertical lines: standard deviation over the "
        "quarters. The largest part is three quarters of the images, so the model itself is a little "
        "better.</p>"
    )


def curve_drawing(curve: LearningCurve) -> str:
    """An SVG; the number of images on a logarithmic scale."""
    points = list(zip(curve.sizes, curve.accuracies, curve.deviations, strict=True))
    low, high, step = _levels(
        max(0.0, min(accuracy - deviation for _, accuracy, deviation in points)),
        min(1.0, max(accuracy + deviation for _, accuracy, deviation in points)),
    )
    start, end = math.log(curve.sizes[0]), math.log(curve.sizes[-1])

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - start) / max(end - start, 1e-9)

    def y(share: float) -> float:
        inside = min(max(share, low), high)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (inside - low) / (high - low)

    parts = []
    for i in range(round((high - low) / step) + 1):
        level = low + i * step
        parts.append(
            f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" '
            f'y2="{y(level):.1f}"/><text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">'
            f"{level:.0%}</text>"
        )
    line = " ".join(f"{x(size):.1f},{y(accuracy):.1f}" for size, accuracy, _ in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for size, accuracy, deviation in points:
        parts.append(
            f'<line class="line" x1="{x(size):.1f}" x2="{x(size):.1f}" '
            f'y1="{y(accuracy + deviation):.1f}" y2="{y(accuracy - deviation):.1f}"/>'
            f'<circle cx="{x(size):.1f}" cy="{y(accuracy):.1f}" r="4">'
            f"<title>{size} images: {accuracy:.1%}</title></circle>"
            f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>'
        )
    words = "; ".join(f"{size} images {accuracy:.1%}" for size, accuracy, _ in points)
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Learning curve: {words}">{"".join(parts)}<text x="{(LEFT + WIDTH - RIGHT) / 2}" '
        f'y="{HEIGHT - 6}" text-anchor="middle">training images</text></svg>'
    )


def _levels(low: float, high: float) -> tuple[float, float, float]:
    """The ends of an axis around low .. high, and a step of which it has five at most or so."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if high - low <= 5 * s + 1e-9)
    bottom, top = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return min(bottom, top - 1) * step, top * step, step
