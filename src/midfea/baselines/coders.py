"""Descriptors of an image to codes over words, pooled in the cells of the 1-2-4 pyramid.

The words that a descriptor takes, and their weights, are what KSPM, LLC and ScSPM differ in.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from midfea.baselines.sparse import lasso_codes
from midfea.engines.cpu.kernels import llc_weights
from midfea.engines.cpu.search import WordIndex
from midfea.stages.pooling import PYRAMID

FINEST = PYRAMID[-1]  # cells on each side of the finest level
N_CELLS = sum(n * n for n in PYRAMID)
LEVEL_WEIGHTS = (0.25, 0.25, 0.5)  # of the histograms of 1, 4 and 16 cells

Floats = NDArray[np.float32]
Cells = NDArray[np.intp]


class Coder(Protocol):
    """Words, and what becomes of an image's descriptors with them."""

    words: Floats

    def codes(self, descriptors: Floats) -> NDArray[Any]:
        """Codes of descriptors (n, d): a row or a number for each."""

    def pool(self, codes: NDArray[Any], cells: Cells) -> Floats:
        """Codes of descriptors in their finest cells (n,), pooled: (N_CELLS * n_words,)."""


class HardWords:
    """The nearest word of each descriptor; its share in each cell, times the weight of the level.

    The sum of all is 1, and the sum of the minima of two images is the pyramid match kernel.
    """

    def __init__(self, words: Floats) -> None:
        self.words = words
        self.index = WordIndex(words)

    def codes(self, descriptors: Floats) -> NDArray[Any]:
        """The number of each descriptor's word, (n,)."""
        return self.index.nearest(descriptors)[:, 0]

    def pool(self, codes: NDArray[Any], cells: Cells) -> Floats:
        """See `Coder`."""
        n_words = len(self.words)
        bins = cells * n_words + codes
        shares = np.bincount(bins, minlength=FINEST**2 * n_words) / len(codes)
        levels = pyramid_levels(shares.reshape(-1, n_words), np.add)
        weighted = [weight * level for weight, level in zip(LEVEL_WEIGHTS, levels, strict=True)]
        return np.concatenate(weighted, axis=None, dtype=np.float32)


class LocalCodes:
    """LLC: each descriptor by its nearest words, weights with sum 1; the largest weight in each cell.

    Attributes
    ----------
    n_neighbors : words of a descriptor
    beta : keeps the weights small, see `midfea.stages.llc_codes`
    """

    def __init__(self, words: Floats, n_neighbors: int, beta: float) -> None:
        self.words, self.n_neighbors, self.beta = words, n_neighbors, beta
        self.index = WordIndex(words)

    def codes(self, descriptors: Floats) -> NDArray[Any]:
        """The weights of all words, (n, n_words)."""
        near = self.index.nearest(descriptors, self.n_neighbors)
        codes = np.zeros((len(descriptors), len(self.words)), dtype=np.float32)
        weights = llc_weights(descriptors, self.words, near, self.beta)
        np.put_along_axis(codes, near.astype(np.intp), weights, axis=1)
        return codes

    def pool(self, codes: NDArray[Any], cells: Cells) -> Floats:
        """See `Coder`."""
        return pool_maxima(codes, cells)


class SparseCodes:
    """ScSPM: each descriptor by its lasso code; the largest absolute value in each cell.

    Attributes
    ----------
    penalty : of the absolute values of a code
    n_candidates : only the words that correlate most with the descriptor are tried, so many of them
    """

    def __init__(self, words: Floats, penalty: float, n_candidates: int | None) -> None:
        self.words, self.penalty, self.n_candidates = words, penalty, n_candidates
        self.gram = gram(words)

    def codes(self, descriptors: Floats) -> NDArray[Any]:
        """The coefficients of all words, (n, n_words)."""
        correlations = descriptors.astype(np.float64) @ self.words.T.astype(np.float64)
        return lasso_codes(self.gram, correlations, self.penalty, n_candidates=self.n_candidates)

    def pool(self, codes: NDArray[Any], cells: Cells) -> Floats:
        """See `Coder`."""
        return pool_maxima(np.abs(codes), cells)


def gram(words: Floats) -> NDArray[np.float64]:
    """Inner products of the words."""
    exact = words.astype(np.float64)
    return np.asarray(exact @ exact.T)


def finest_cells(places: Floats, shape: tuple[int, ...]) -> Cells:
    """The cell of the finest level, row by row, in which each place of an image of that shape lies."""
    rows, columns = (places * FINEST // np.array(shape, dtype=np.float32)).astype(np.intp).T
    return np.asarray(rows * FINEST + columns)


def pool_maxima(codes: NDArray[Any], cells: Cells) -> Floats:
    """The largest value of each word in each cell, negative ones included; 0 in an empty cell."""
    finest = np.full((FINEST**2, codes.shape[1]), -np.inf, dtype=np.float32)
    for cell in np.unique(cells):
        finest[cell] = codes[cells == cell].max(axis=0)
    pooled = np.concatenate(pyramid_levels(finest, np.maximum), axis=None)
    pooled[np.isneginf(pooled)] = 0
    return pooled


def pyramid_levels(finest: NDArray[Any], join: np.ufunc) -> list[NDArray[Any]]:
    """Pooled values in 1, 2x2 and 4x4 cells, (cells, n_words) each, from those in the 4x4 cells."""
    levels = [finest]
    for side in reversed(PYRAMID[:-1]):
        blocks = levels[0].reshape(side, 2, side, 2, -1)
        levels.insert(0, join.reduce(blocks, axis=(1, 3)).reshape(side**2, -1))
    return levels
