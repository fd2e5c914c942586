"""From weights on the pooled codes back to descriptors: who won each cell's maximum, for how much.

A pooled code is the maximum (or the sum) of one word's weights over a cell's descriptors, at all scales.
A linear function of the pooled codes is therefore a sum over descriptors, without any approximation: a
maximum belongs to the descriptor that reached it, a sum to each by its own weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.engines import Chain, Engine
from midfea.images import Grey
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
    """Share out `slopes` . pooled codes among the descriptors, (n_cells * n_words,) slopes.

    Descriptors that reach a maximum together share it evenly: with VQ, where all weights are one, every
    descriptor of a word in the cell is as much a winner as any other.
    """
    slopes = slopes.reshape(-1, len(chain.words()))
    shares = [np.zeros(codes.weights.shape) for codes in found]
    for index, row in enumerate(slopes):
        if chain.pooling == "sum":
            for codes, share, inside in _in_cell(found, shares, index):
                share[inside] += row[codes.words[inside]] * codes.weights[inside]
            continue
        largest = np.zeros(len(row), dtype=np.float32)  # an absent word counts as zero
        winners = np.zeros(len(row))
        for codes, _, inside in _in_cell(found, shares, index):
            np.maximum.at(largest, codes.words[inside].ravel(), codes.weights[inside].ravel())
        for codes, _, inside in _in_cell(found, shares, index):
            winners += np.bincount(codes.words[inside][_won(codes, inside, largest)], minlength=len(row))
        each = row * largest / np.maximum(winners, 1)
        for codes, share, inside in _in_cell(found, shares, index):
            share[inside] += np.where(_won(codes, inside, largest), each[codes.words[inside]], 0.0)
    return [Traced(codes, share) for codes, share in zip(found, shares, strict=True)]


def _in_cell(
    found: list[Codes], shares: list[Floats], index: int
) -> Iterator[tuple[Codes, Floats, Any]]:
    for codes, share in zip(found, shares, strict=True):
        yield codes, share, codes.cells[index]


def _won(codes: Codes, inside: Any, largest: NDArray[np.float32]) -> NDArray[np.bool_]:
    weights = codes.weights[inside]
    return np.asarray((weights > 0) & (weights == largest[codes.words[inside]]))


def pooled_codes(found: list[Codes], chain: Chain) -> NDArray[np.float32]:
    """What the codes give in the cells, over all scales: the engine's `pooled`."""
    n_words = len(chain.words())
    table = np.zeros((len(found[0].cells), n_words), dtype=np.float32)
    collect = np.maximum.at if chain.pooling == "max" else np.add.at
    for codes in found:
        for row, inside in zip(table, codes.cells, strict=True):
            collect(row, codes.words[inside].ravel(), codes.weights[inside].ravel())
    return table.ravel()
