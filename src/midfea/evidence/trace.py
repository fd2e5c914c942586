"""From weights on the pooled codes back to descriptors: who reached each cell's maximum, for how much.

A pooled code is the maximum (or the sum) of one word's weights over a cell's descriptors, at all scales.
A linear function of the pooled codes is therefore a sum over descriptors, without any approximation: a
sum belongs to each by its own weight, a maximum to those that reach it or come near (`shared_maxima`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea import stages
from midfea.engines import Chain, Codes, Scaled
from midfea.pictures.resize import Grey
from midfea.stages.pooling import Level

Floats = NDArray[np.float64]
ScaleCodes = tuple[Scaled, Codes]  # an image at one scale and its codes: `PreparedChain.codes_by_scale`


@dataclass(frozen=True, eq=False)
class Traced:
    """The contributions of the descriptors at one scale."""

    image: Grey
    words: NDArray[np.int32]  # (height, width, k)
    by_code: Floats  # (height, width, k), for each descriptor and each word it uses

    @property
    def by_descriptor(self) -> Floats:
        """(height, width)"""
        return np.asarray(self.by_code.sum(axis=-1))


def trace(scales: list[ScaleCodes], chain: Chain, gradient: Floats) -> list[Traced]:
    """Share out `gradient` . pooled codes among the descriptors, (n_cells * n_words,) values."""
    all_weights = [codes.all_weights() for _, codes in scales]
    cells_of_scales = [_cells(scaled.levels) for scaled, _ in scales]
    shares = [np.zeros(weights.shape) for weights in all_weights]
    for index, row in enumerate(gradient.reshape(-1, len(chain.words))):
        insides = [cells[index] for cells in cells_of_scales]
        words = [codes.words[inside] for (_, codes), inside in zip(scales, insides, strict=True)]
        weights = [part[inside] for part, inside in zip(all_weights, insides, strict=True)]
        cell_words = np.concatenate([part.ravel() for part in words])
        parts = np.concatenate([part.ravel() for part in weights]).astype(np.float64)
        if chain.pooling == "max":
            parts = shared_maxima(parts, cell_words)
        stops = np.cumsum([part.size for part in words])[:-1]
        split = np.split(row[cell_words] * parts, stops)
        for share, inside, part in zip(shares, insides, split, strict=True):
            share[inside] += part.reshape(share[inside].shape)
    return [
        Traced(scaled.image, codes.words, share)
        for (scaled, codes), share in zip(scales, shares, strict=True)
    ]


def _cells(levels: list[Level]) -> list[tuple[slice, slice]]:
    """The cells of descriptors, in the order of the pooled codes."""
    return [
        (slice(*row), slice(*column)) for rows, columns in levels for row in rows for column in columns
    ]


def shared_maxima(values: Floats, groups: NDArray[Any]) -> Floats:
    """Each group's maximum, or zero if that is larger, shared out among its values: Shapley's rule.

    Of every step up to the maximum, all who reach so far get the same: (3, 2, 0) get (2, 1, 0). The
    winner does not get all, for without it the second would have won; equal values get equal shares.
    """
    values = np.maximum(values, 0.0)
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(first, append=len(groups))
    steps = np.diff(values, prepend=0.0)
    steps[first] = values[first]
    steps /= np.repeat(first + sizes, sizes) - np.arange(len(groups))  # how many reach so far
    sums = np.cumsum(steps)
    shares = np.empty_like(values)
    shares[order] = sums - np.repeat(sums[first] - steps[first], sizes)
    return shares


def pool_scales(scales: list[ScaleCodes], chain: Chain) -> NDArray[np.float32]:
    """The codes of all scales pooled in the cells: `PreparedChain.pooled`."""
    join = np.maximum if chain.pooling == "max" else np.add
    tables = [
        stages.pool_levels(
            codes.words, codes.all_weights(), len(chain.words), scaled.levels, chain.pooling
        )
        for scaled, codes in scales
    ]
    return np.asarray(join.reduce(tables))
