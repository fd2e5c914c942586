"""From grey pixels to local descriptors in ONNX: the stages of `midfea.stages.low_level`."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import DTypeLike

from midfea.engines import Chain
from midfea.export.graph import Value
from midfea.stages.low_level import EQUAL, FLAT


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
