"""Would more images help? The learning curve, drawn."""

from __future__ import annotations

import math

from midfea.learning.validation import LearningCurve

WIDTH, HEIGHT = 520, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 24, 16, 42
WORTHWHILE = 0.01  # of accuracy, by the last doubling


def verdict(curve: LearningCurve) -> str:
    """The curve in a sentence."""
    gain = curve.gain()
    if math.isnan(gain):
        return "There are too few images for a learning curve."
    factor = curve.sizes[-1] / curve.sizes[-2]
    brought = f"{factor:.1f} times as many images brought {100 * gain:+.1f} points of accuracy"
    if gain >= WORTHWHILE:
        return f"At the end of the curve, {brought}: more images are likely to help."
    return (
        f"At the end of the curve, {brought}: more images of the same kind will help little. "
        "Better labels, other views or another preset may."
    )


def drawing(curve: LearningCurve) -> str:
    """An SVG; the number of images on a logarithmic scale."""
    low = max(0.0, min(a - d for a, d in zip(curve.accuracies, curve.deviations, strict=True)))
    high = min(1.0, max(a + d for a, d in zip(curve.accuracies, curve.deviations, strict=True)))
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if high - low <= 5 * s)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    start, end = math.log(curve.sizes[0]), math.log(curve.sizes[-1])

    def x(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(size) - start) / max(end - start, 1e-9)

    def y(accuracy: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (accuracy - low) / max(high - low, 1e-9)

    parts = []
    for i in range(round((high - low) / step) + 1):
        level = low + i * step
        at = y(level)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{level:.0%}</text>'
        )
    points = list(zip(curve.sizes, curve.accuracies, curve.deviations, strict=True))
    line = " ".join(f"{x(size):.1f},{y(accuracy):.1f}" for size, accuracy, _ in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for size, accuracy, deviation in points:
        parts.append(
            f'<line class="line" x1="{x(size):.1f}" x2="{x(size):.1f}" '
            f'y1="{y(min(1, accuracy + deviation)):.1f}" y2="{y(max(0, accuracy - deviation)):.1f}"/>'
            f'<circle cx="{x(size):.1f}" cy="{y(accuracy):.1f}" r="4">'
            f"<title>{size} images: {accuracy:.1%}</title></circle>"
            f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">images learned from</text>'
    )
    words = "; ".join(f"{size} images {accuracy:.1%}" for size, accuracy, _ in points)
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Learning curve: {words}">{"".join(parts)}</svg>'
    )
