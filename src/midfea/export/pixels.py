"""Pixels as the library sees them, in ONNX: `midfea.pictures` in grey, reduced, at several scales.

Sizes are values (1,) of whole numbers: they are known only when an image comes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from midfea.export.graph import Graph, Value
from midfea.pictures import images

UNIT = 2.0**22  # Pillow's weights are whole numbers of 1 / UNIT


class Size(NamedTuple):
    """Of an image, or of a grid."""

    height: Value
    width: Value


class Resize(NamedTuple):
    """Two matrices, float64: rows @ image @ columns."""

    rows: Value
    columns: Value
    rows_first: Value | None  # whether rows @ image is rounded first; None: never


def to_grey(image: Value) -> Value:
    """uint8 (height, width, 3) to whole numbers in float32 (height, width).

    The weights add up to 2^16, so that all sums stay below 2^24: float32 holds them exactly.
    """
    weights = np.array([19595, 38470, 7471], dtype=np.float32)
    rounded = (image.to(np.float32) @ weights + 0x8000) / 2**16
    return image.graph.op("Floor", rounded)


def to_opponents(image: Value) -> list[Value]:
    """`images.opponents`, also of grey pixels: red against green, yellow against blue."""
    g = image.graph
    axes = np.array([[1, -1, 0], [1, 1, -2]], dtype=np.float32)
    planes = []
    for weights, whole in zip(axes, (2, 4), strict=True):
        share = g.op("Floor", (image.to(np.float32) @ weights + whole / 2) / whole)
        planes.append(g.op("Clip", share + images.NEUTRAL, 0.0, 255.0))
    return planes


def size_within(size: Size, max_side: int | None) -> Size:
    """`images.fit_within`."""
    if max_side is None:
        return size
    longest = size.height.graph.op("Max", *size).to(np.float64)
    return scaled_size(size, size.height.graph.op("Min", max_side / longest, 1.0))


def scaled_size(size: Size, factor: Any) -> Size:
    """`images.scaled_shape`: Round, like Python's, takes halves to the even number."""
    g = size.height.graph
    height, width = (
        g.op("Max", g.op("Round", side.to(np.float64) * factor), 1.0).to(np.int64) for side in size
    )
    return Size(height, width)


def resizing(before: Size, after: Size) -> Resize:
    """What `resize` needs from one size to the other."""
    columns = _weights(before.width, after.width).transpose(1, 0)
    lost = before.height - after.height
    more = lost.graph.op("Min", lost, lost - (before.width - after.width) * 2)
    rows_first = more > 0 if pillow_turns() else None
    return Resize(_weights(before.height, after.height), columns, rows_first)


def resize(pixels: Value, weights: Resize) -> Value:
    """`images.resize` of whole numbers, as Pillow does it: to the last bit.

    One direction after the other, each rounded to 8 bits. The sums are exact in float64.
    """
    numbers = pixels.to(np.float64)

    def columns_first() -> Value:
        return _to_8_bits(weights.rows @ _to_8_bits(numbers @ weights.columns))

    def rows_first() -> Value:
        return _to_8_bits(_to_8_bits(weights.rows @ numbers) @ weights.columns)

    if weights.rows_first is None:
        return columns_first().to(np.float32)
    return pixels.graph.choose(weights.rows_first, rows_first, columns_first).to(np.float32)


@lru_cache
def pillow_turns() -> bool:
    """Whether the library's Pillow begins with the height if that loses more than twice as many pixels.

    Version 13 does so, older ones always begin with the width; the roundings differ.
    """
    image = np.random.RandomState(0).randint(256, size=(64, 16)).astype(np.uint8)
    by_turns = images.resize(images.resize(image, (64, 12)), (10, 12))
    return not np.array_equal(images.resize(image, (10, 12)), by_turns)


def _to_8_bits(sums: Value) -> Value:
    g = sums.graph
    return g.op("Clip", g.op("Floor", (sums + UNIT / 2) / UNIT), 0.0, 255.0)


def _weights(before: Value, after: Value) -> Value:
    """How much of each pixel goes into each new one, a triangle around its place: (after, before)."""
    g: Graph = before.graph
    scale = before.to(np.float64) / after.to(np.float64)
    support = g.op("Max", scale, 1.0)
    centers = ((g.arange(0, after).to(np.float64) + 0.5) * scale).unsqueeze(1)
    distances = g.op("Abs", (g.arange(0, before).to(np.float64) - centers + 0.5) * (1.0 / support))
    triangle = g.op("Relu", 1.0 - distances)
    return g.op("Floor", triangle / triangle.reduce("Sum", 1) * UNIT + 0.5)
