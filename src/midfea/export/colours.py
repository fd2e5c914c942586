"""The colour histogram in ONNX: `midfea.learning.colour`."""

from __future__ import annotations

import numpy as np

from midfea.export.graph import Value
from midfea.export.pixels import Resize, Size, resizing, size_within, unit_length
from midfea.learning.colour import LEVELS, MAX_SIDE, ColourWords
from midfea.stages.colour import COLOUR_SCALE, GREY_SCALE, MIDDLE


class OnnxColours:
    """Colour words for images of one size."""

    def __init__(self, colour: ColourWords, size: Size) -> None:
        g = size.height.graph
        small = size_within(size, MAX_SIDE)
        sides = [g.constant(np.array([n], dtype=np.int64)) for n in LEVELS]
        self.colour = colour
        self.reduce = resizing(size, small, False)
        self.levels = [resizing(small, Size(side, side), False) for side in sides]

    def beside(self, features: Value, planes: list[Value]) -> Value:
        """`ColourWords.beside` for the features (n_chain,) of an image of three planes."""
        of_chain, of_colour = self.colour.factors
        parts = [features * of_chain, self.histogram(planes) * of_colour]
        return features.graph.join(parts, np.float32)

    def histogram(self, planes: list[Value]) -> Value:
        """`stages.colour_histogram`, (n_features,)."""
        g = planes[0].graph
        reduced = g.join([self.reduce.apply(plane).unsqueeze(2) for plane in planes], np.float32, axis=2)
        scales = np.array([GREY_SCALE, COLOUR_SCALE, COLOUR_SCALE])
        points = (reduced.to(np.float64) - MIDDLE) * scales
        words = self.colour.words.astype(np.float64)
        half = np.square(words).sum(axis=1) / 2
        nearness = (points @ np.ascontiguousarray(words.T) - half) / self.colour.bandwidth
        codes = g.op("Softmax", nearness, axis=2)
        means = [self._cell_means(codes, level) for level in self.levels]
        roots = g.op("Sqrt", g.join(means, np.float64))
        return unit_length(roots).to(np.float32)

    def _cell_means(self, codes: Value, level: Resize) -> Value:
        """`stages.cell_means` of one level, one after the other."""
        n_words = len(self.colour.words)
        height, width = codes.side(0), codes.side(1)
        by_row = (level.rows @ codes.reshape(height, -1)).reshape(-1, width, n_words)
        return (level.columns.transpose(1, 0) @ by_row).reshape(-1)
