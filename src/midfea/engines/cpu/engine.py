"""The fast engine: compiled loops, and an exact search for the nearest words.

Nothing of the size "all descriptors x all words" is ever stored: the memory for one image is its
descriptors, and what `search` needs for the words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.engines import reference
from midfea.engines.chain import Chain, Codes, Search
from midfea.engines.cpu import kernels
from midfea.engines.cpu.search import WordIndex
from midfea.engines.cpu.ties import settle
from midfea.pictures.images import Grey
from midfea.stages.low_level import FLAT
from midfea.stages.pooling import Level, Partition, partition_levels

_UNWEIGHTED = np.empty((0, 0, 0), dtype=np.float32)


def describe(image: Grey, chain: Chain) -> NDArray[np.float32]:
    return kernels.assemble(pooled_maps(image, chain), chain.pairs, chain.window)


def pooled_maps(image: Grey, chain: Chain) -> NDArray[np.float32]:
    """Soft convolution, then the maxima of 2x2 pixels: maps (n_filters, height, width)."""
    return kernels.pooled_maps(_responses(image, chain), chain.rectify)


def _responses(image: Grey, chain: Chain) -> kernels.Responses:
    pixels = np.ascontiguousarray(image, dtype=np.float32)
    least = FLAT * float(np.abs(pixels).max())
    return kernels.respond(pixels, chain.filters, chain.padding == "same", least, chain.floor)


def search(words: NDArray[np.float32]) -> Search:
    index = WordIndex(words)
    return lambda points: index.nearest(points)[:, 0]


def codes(image: Grey, chain: Chain) -> Codes:
    """`encode` of `describe`; near ties of words are decided as exact descriptors would."""
    responses = _responses(image, chain)
    maps = kernels.pooled_maps(responses, chain.rectify)
    descriptors = kernels.assemble(maps, chain.pairs, chain.window)
    index = _index(_Same(chain.words()))
    words, rivals = index.nearest_and_rivals(
        descriptors.reshape(-1, descriptors.shape[-1]), chain.n_nearest
    )
    settle(words, rivals, chain.words(), index.exact_half,
           responses, chain.rectify, chain.pairs, chain.window, descriptors.shape[1])  # fmt: skip
    return _weighted(descriptors, words, chain)


def encode(descriptors: NDArray[Any], chain: Chain) -> Codes:
    flat = descriptors.reshape(-1, descriptors.shape[-1])
    words = _index(_Same(chain.words())).nearest(flat, chain.n_nearest)
    return _weighted(descriptors, words, chain)


def _weighted(descriptors: NDArray[Any], words: NDArray[np.int32], chain: Chain) -> Codes:
    """The codes over words that were found, (n, k)."""
    flat = descriptors.reshape(-1, descriptors.shape[-1])
    shape, k = descriptors.shape[:-1], words.shape[1]
    if chain.encoding == "vq":
        return words.reshape(shape), None
    if chain.encoding == "soft":
        weights = kernels.soft_weights(flat, chain.words(), words, chain.softness)
    else:
        weights = kernels.llc_weights(flat, chain.words(), words, 1e-4)
    return words.reshape(*shape, k), weights.reshape(*shape, k)


@lru_cache(maxsize=8)
def _index(words: _Same) -> WordIndex:
    return WordIndex(words.array)


class _Same:
    """An array as a key: the same only if it is the same object. Fitted arrays never change."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.array is self.array


def pooled(image: Grey, chain: Chain) -> NDArray[np.float32]:
    cells, full_shape = None, None
    for copy in chain.scaled(image):
        found = codes(copy, chain)
        shape = found[0].shape
        full_shape = full_shape or (shape[0], shape[1])
        cells = pool_codes(found, _levels(chain.partition, shape[:2], full_shape), chain, cells)
    assert cells is not None  # an image has at least one scale
    return cells


def _levels(partition: Partition, shape: tuple[int, ...], full_shape: tuple[int, int]) -> list[Level]:
    """`partition_levels`, kept: many images have one size."""
    if isinstance(partition, str | tuple):
        return _kept_levels(partition, shape, full_shape)
    return partition_levels(partition, shape, full_shape)


_kept_levels = lru_cache(maxsize=1024)(partition_levels)


def pool_codes(
    codes: Codes, levels: list[Level], chain: Chain, cells: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Cells x words in one row; codes of another scale are pooled into the same `cells`."""
    words, weights = codes
    n_words = len(chain.words())
    if cells is None:
        n_cells = sum(len(rows) * len(columns) for rows, columns in levels)
        cells = np.zeros(n_cells * n_words, dtype=np.float32)
    table = cells.reshape(-1, n_words)
    if weights is None:
        words, weights = words[..., None], _UNWEIGHTED
    start = 0
    for rows, columns in levels:
        stop = start + len(rows) * len(columns)
        kernels.pool_level(words, weights, rows, columns, chain.pooling == "max", table[start:stop])
        start = stop
    return cells


def project(codes: NDArray[np.float32], matrix: sp.csr_array) -> NDArray[np.float32]:
    signs = _signs(_Same(matrix))
    if signs is None:
        return reference.project(codes, matrix)
    starts, places, scale = signs
    out = np.empty((len(codes), matrix.shape[1]), dtype=np.float32)
    kernels.add_signed(codes, starts, places, out)
    out *= scale
    return out


@lru_cache(maxsize=8)
def _signs(matrix: _Same) -> tuple[NDArray[Any], NDArray[Any], np.float32] | None:
    """A matrix of one number with random signs, for `add_signed`: a quarter of the memory, in cache."""
    csr = matrix.array
    if not len(csr.data) or (np.abs(csr.data) != np.abs(csr.data[0])).any():
        return None
    places = 2 * csr.indices.astype(np.int64) + (csr.data < 0)
    small = 2 * csr.shape[1] <= np.iinfo(np.uint16).max
    return csr.indptr, places.astype(np.uint16 if small else np.uint32), np.abs(csr.data[0])
