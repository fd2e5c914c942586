"""The colours of an image and where they are: a soft count of colour words in the cells of a pyramid.

This step is ours, not the paper's: its chain sees grey values only.

    colour_points -> colour_codes -> cell_means -> colour_histogram
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Level = tuple[Any, Any]  # weights of the rows (n, height) and of the columns (m, width) in n x m cells

MIDDLE = 128  # of grey values, and no colour in a colour plane
GREY_SCALE, COLOUR_SCALE = 0.5, 2.0  # colours count more: the chain sees the grey values


def colour_points(grey: NDArray[Any], red_green: NDArray[Any], yellow_blue: NDArray[Any]) -> Floats:
    """Each pixel as a point in the space of the colour words, (height, width, 3).

    Parameters
    ----------
    grey : (height, width), 0 to 255
    red_green, yellow_blue : like `grey`; 128 for neither

    Examples
    --------
    >>> from midfea.stages import colour_points
    >>> colour_points([[130.0]], [[128.0]], [[138.0]]).tolist()
    [[[1.0, 0.0, 20.0]]]
    """
    planes = np.stack([grey, red_green, yellow_blue], axis=-1).astype(np.float64)
    return np.asarray((planes - MIDDLE) * (GREY_SCALE, COLOUR_SCALE, COLOUR_SCALE))


def colour_codes(points: Floats, words: NDArray[Any], bandwidth: float) -> Floats:
    """How much of each pixel belongs to each word, (height, width, n_words); sums to one.

    bandwidth : squared distances are compared with twice this one
    """
    # Without the square of the point itself, which is the same for all words.
    words = words.astype(np.float64)
    nearness = (points @ words.T - np.square(words).sum(axis=1) / 2) / bandwidth
    codes = np.exp(nearness - nearness.max(axis=-1, keepdims=True))
    return np.asarray(codes / codes.sum(axis=-1, keepdims=True))


def cell_means(codes: Floats, levels: Sequence[Level]) -> Floats:
    """The weighted mean of the codes in each cell, level by level, (n_cells, n_words)."""
    height, width, n_words = codes.shape
    means = []
    for rows, columns in levels:
        n, m = rows.shape[0], columns.shape[0]
        by_row = (rows @ codes.reshape(height, -1)).reshape(n, width, n_words)
        across = columns @ by_row.transpose(1, 0, 2).reshape(width, -1)
        means.append(across.reshape(m, n, n_words).transpose(1, 0, 2).reshape(n * m, n_words))
    return np.concatenate(means)


def colour_histogram(
    points: Floats, words: NDArray[Any], bandwidth: float, levels: Sequence[Level]
) -> NDArray[np.float32]:
    """Square roots of the mean codes of all cells, one cell after the other, at unit length.

    Parameters
    ----------
    points : (height, width, 3), see `colour_points`
    words : (n_words, 3), points that are typical
    bandwidth : see `colour_codes`
    levels : for each level of cells the weights of the rows (n, height) and of the columns (m, width);
        their rows sum to one

    Returns
    -------
    histogram : float32 array (n_cells * n_words,)

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import colour_histogram
    >>> black_and_white = np.array([[[-64.0, 0, 0], [63.5, 0, 0]]])
    >>> whole = np.ones((1, 1)), np.full((1, 2), 0.5)
    >>> colour_histogram(black_and_white, black_and_white[0], 1.0, [whole]).round(3).tolist()
    [0.7070000171661377, 0.7070000171661377]
    """
    roots = np.sqrt(cell_means(colour_codes(points, words, bandwidth), levels)).ravel()
    return (roots / np.linalg.norm(roots)).astype(np.float32)
