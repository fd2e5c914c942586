"""From pixels to local descriptors in ONNX: `midfea.pictures` and the stages of `stages.low_level`.

Sizes are values (1,) of whole numbers: they are known only when an image comes.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from midfea.engines import Chain
from midfea.export.graph import Value
from midfea.pictures.picture import LUMINANCE, NO_COLOUR
from midfea.pictures.resize import ROUNDED_UNIT
from midfea.stages.low_level import EQUAL, FLAT


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


def describe(pixels: Value, chain: Chain, kind: DTypeLike = np.float32) -> Value:
    """Descriptors (rows, columns, d) of one grey image, float32 (height, width).

    kind : float64 keeps what float32 would round
    """
    maps = soft_convolution(pixels, chain).to(kind)
    maps = pixels.graph.op("MaxPool", maps, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    if chain.pairs:
        pairs = np.array(list(itertools.combinations(range(len(chain.filters)), 2)), dtype=np.int64)
        maps = pixels.graph.op("Max", maps.take(pairs[:, 0], 1), maps.take(pairs[:, 1], 1))
    return assemble(maps.transpose(0, 2, 3, 1), chain.window)


def soft_convolution(pixels: Value, chain: Chain) -> Value:
    """`stages.soft_convolution`: (1, n_filters, height, width), float64."""
    g = pixels.graph
    if chain.padding == "same":
        for axis, size in enumerate(chain.filters.shape[1:]):
            pixels = pixels.take(_mirrored(pixels.side(axis), size), axis)
    # Exact for whole pixels, whatever the order of the additions: see `filters.GRID`. In float64 the
    # squares are exact too, so that flat places are the library's.
    responses = g.op("Conv", pixels.unsqueeze(0, 1), chain.filters[:, None]).to(np.float64)
    squares = responses.reduce("SumSquare", 1)
    least = pixels.to(np.float64).reduce("Max") * FLAT
    flat = least * least
    if chain.floor:
        flat = g.op("Max", flat, squares.reduce("Mean") * chain.floor**2)
    scale = g.where(squares > flat, 1.0 / g.op("Sqrt", squares), 0.0)
    maps = (g.op("Abs", responses) if chain.rectify else responses) * scale
    maps = g.op("Relu", maps - maps.reduce("Mean", 1))
    return maps * _one_over(g.op("Sqrt", maps.reduce("SumSquare", 1)), EQUAL)


def assemble(maps: Value, window: int) -> Value:
    """`stages.assemble_descriptors` of maps (1, height, width, n_maps)."""
    g = maps.graph
    shifted = []
    for shift in itertools.product(range(window), repeat=2):
        stops = [maps.side(1 + axis) + (shift[axis] - window + 1) for axis in range(2)]
        shifted.append(maps.cut((1, 2), shift, g.join(stops, np.int64)))
    windows = g.op("Squeeze", g.join(shifted, maps.kind, axis=3), np.array([0]))
    return unit_length(windows)


def unit_length(vectors: Value) -> Value:
    """`stages.unit_length`: along the last axis; zero stays zero."""
    return vectors * _one_over(vectors.graph.op("Sqrt", vectors.reduce("SumSquare", -1)), 0.0)


def _one_over(lengths: Value, least: float) -> Value:
    return lengths.graph.where(lengths > least, 1.0 / lengths, 0.0)


def _mirrored(side: Value, filter_size: int) -> Value:
    """Places of pixels with a border of half a filter: 0 .. side-1 back and forth, the last twice."""
    g = side.graph
    places = g.arange(-((filter_size - 1) // 2), side + filter_size // 2)
    places = g.op("Mod", places, side * 2)
    return g.where(side > places, places, side * 2 - 1 - places)
