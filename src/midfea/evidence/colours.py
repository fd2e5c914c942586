"""From weights on the colour histogram back to pixels. Every step shares out and loses nothing.

A number of the histogram is the root of a mean, divided by the length of all. Its contribution goes to
the pixels in proportion to what each adds to the mean: its code for the word, by its weight in the cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from midfea.evidence.spread import to_shape
from midfea.learning.colour import ColourWords, levels_of, points_of
from midfea.pictures.picture import Picture
from midfea.stages import cell_means, colour_codes

Floats = NDArray[np.float64]


def colours_to_pixels(gradient: Floats, picture: Picture, colour: ColourWords) -> Floats:
    """`gradient` . histogram as a map of the picture, (height, width)."""
    points = points_of(picture)
    levels = levels_of(points.shape)
    codes = colour_codes(points, colour.words, colour.bandwidth)
    means = cell_means(codes, levels)
    lengths = np.sqrt(means * means.sum())  # root of the mean x length of all roots
    by_mean = np.divide(
        gradient.reshape(means.shape), lengths, out=np.zeros_like(means), where=means > 0
    )
    pixels, start = np.zeros(points.shape[:2]), 0
    for rows, columns in levels:
        n, m = rows.shape[0], columns.shape[0]
        of_cells = by_mean[start : start + n * m].reshape(n, m, -1)
        operands = rows.toarray(), columns.toarray(), of_cells, codes
        pixels += np.einsum("ny,mx,nmw,yxw->yx", *operands, optimize=True)
        start += n * m
    return to_shape(pixels, picture.shape)
