"""Pixels as the library sees them, in ONNX: `midfea.pictures`, in grey, in colour and in other sizes.

Sizes are values (1,) of whole numbers: they are known only when an image comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from midfea.export.graph import Value
from midfea.pictures.picture import LUMINANCE, NO_COLOUR
from midfea.pictures.resize import ROUNDED_UNIT


class Size(NamedTuple):
    """Of an image, or of a grid."""

    height: Value
    width: Value


class Resize(NamedTuple):
    """`pictures.resize.resize` from one size to another, for many images."""

    rows: Value  # (new height, height), float64
    columns: Value  # (width, new width), float64
    rounded: bool

    def apply(self, image: Value) -> Value:
        """The image (height, width) in its new size, float32."""
        pixels = image.to(np.float64)
        if not self.rounded:
            return (self.rows @ pixels @ self.columns).to(np.float32)
        return _rounded(self.rows @ _rounded(pixels @ self.columns)).to(np.float32)


def resizing(before: Size, after: Size, rounded: bool) -> Resize:
    """The weights of the old pixels in the new ones, down and across."""
    rows, columns = (_weights(*sides, rounded) for sides in zip(before, after, strict=True))
    return Resize(rows, columns.transpose(1, 0), rounded)


def _weights(before: Value, after: Value, rounded: bool) -> Value:
    """`pictures.resize.weights`, (after, before)."""
    g = before.graph
    scale = before.to(np.float64) / after.to(np.float64)
    centres = ((g.arange(0, after).to(np.float64) + 0.5) * scale).unsqueeze(1)
    distances = g.op("Abs", g.arange(0, before).to(np.float64) + 0.5 - centres)
    triangle = g.op("Relu", 1.0 - distances / g.op("Max", scale, 1.0))
    weights = triangle / triangle.reduce("Sum", 1)
    return g.op("Floor", weights * ROUNDED_UNIT + 0.5) if rounded else weights


def _rounded(sums: Value) -> Value:
    g = sums.graph
    return g.op("Clip", g.op("Floor", (sums + ROUNDED_UNIT / 2) / ROUNDED_UNIT), 0.0, 255.0)


def to_grey(image: Value) -> Value:
    """`pictures.picture.to_grey`: uint8 (height, width, 3) to whole numbers in float32.

    All sums stay below 2^24: float32 holds them exactly.
    """
    weighted = image.to(np.float32) @ np.array(LUMINANCE, dtype=np.float32)
    return image.graph.op("Floor", (weighted + 0x8000) / 2**16)


def colour_planes(image: Value) -> list[Value]:
    """`pictures.picture.colour_planes`, also of grey pixels: red against green, yellow against blue."""
    g = image.graph
    pixels = image.to(np.float32)
    axes = (np.array([1, -1, 0], np.float32), 2), (np.array([1, 1, -2], np.float32), 4)
    shares = [g.op("Floor", (pixels @ weights + whole / 2) / whole) for weights, whole in axes]
    return [g.op("Clip", share + NO_COLOUR, 0.0, 255.0) for share in shares]


def size_within(size: Size, max_side: int | None) -> Size:
    """`pictures.resize.fit_within`."""
    if max_side is None:
        return size
    g = size.height.graph
    longest = g.op("Max", *size).to(np.float64)
    return scaled_size(size, g.op("Min", max_side / longest, 1.0))


def scaled_size(size: Size, factor: Value | float) -> Size:
    """`pictures.resize.scaled_shape`: Round, like Python's, takes halves to the even number."""
    g = size.height.graph
    height, width = (
        g.op("Max", g.op("Round", side.to(np.float64) * factor), 1.0).to(np.int64) for side in size
    )
    return Size(height, width)
