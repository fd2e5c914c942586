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

from midfea.engines import Chain, Engine
from midfea.pictures.images import Grey
from midfea.stages.pooling import partition_levels

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Codes:
    """The codes of one image's copy at one scale."""

    copy: Grey
    words: NDArray[np.int32]  # (height, width, k)
    weights: NDArray[np.float32]  # (height, width, k)
    cells: list[tuple[slice, slice]]  # of descriptors, in the order of the pooled codes


@dataclass(frozen=True)
class Traced:
    """The contributions of the descriptors at one scale."""

    codes: Codes
    by_code: Floats  # (height, width, k), for each descriptor and each word it uses

    @property
    def by_descriptor(self) -> Floats:
        """(height, width)"""
        return np.asarray(self.by_code.sum(axis=-1))


def all_codes(image: Grey, chain: Chain, engine: Engine) -> list[Codes]:
    """Words and weights of all descriptors, scale by scale, with the cells they are pooled in."""
    found = []
    full_shape = None
    for copy in chain.scaled(image):
        words, weights = engine.codes(copy, chain)
        if weights is None:
            words, weights = words[..., None], np.ones((*words.shape, 1), dtype=np.float32)
        full_shape = full_shape or (words.shape[0], words.shape[1])
        cells = [
            (slice(*row), slice(*column))
            for rows, columns in partition_levels(chain.partition, words.shape[:2], full_shape)
            for row in rows
            for column in columns
        ]
        found.append(Codes(copy, words, weights, cells))
    return found


def trace(found: list[Codes], chain: Chain, slopes: Floats) -> list[Traced]:
    """Share out `slopes` . pooled codes among the descriptors, (n_cells * n_words,) slopes."""
    slopes = slopes.reshape(-1, len(chain.words()))
    shares = [np.zeros(codes.weights.shape) for codes in found]
    for index, row in enumerate(slopes):
        insides = [codes.cells[index] for codes in found]
        words = [codes.words[inside] for codes, inside in zip(found, insides, strict=True)]
        weights = [codes.weights[inside] for codes, inside in zip(found, insides, strict=True)]
        all_words = np.concatenate([each.ravel() for each in words])
        parts = np.concatenate([each.ravel() for each in weights]).astype(np.float64)
        if chain.pooling == "max":
            parts = shared_maxima(parts, all_words)
        stops = np.cumsum([each.size for each in words])[:-1]
        split = np.split(row[all_words] * parts, stops)
        for share, inside, part in zip(shares, insides, split, strict=True):
            share[inside] += part.reshape(share[inside].shape)
    return [Traced(codes, share) for codes, share in zip(found, shares, strict=True)]


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


def pooled_codes(found: list[Codes], chain: Chain) -> NDArray[np.float32]:
    """What the codes give in the cells, over all scales: the engine's `pooled`."""
    n_words = len(chain.words())
    table = np.zeros((len(found[0].cells), n_words), dtype=np.float32)
    collect = np.maximum.at if chain.pooling == "max" else np.add.at
    for codes in found:
        for row, inside in zip(table, codes.cells, strict=True):
            collect(row, codes.words[inside].ravel(), codes.weights[inside].ravel())
    return table.ravel()
