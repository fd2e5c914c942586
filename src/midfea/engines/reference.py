"""The plain engine: the stages one after the other. Slow, and right by inspection."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea import stages
from midfea.engines.chain import Chain, Codes, Search
from midfea.pictures.images import Grey


def describe(image: Grey, chain: Chain) -> NDArray[np.float32]:
    maps = stages.soft_convolution(
        image, chain.filters, chain.padding, rectify=chain.rectify, floor=chain.floor
    )
    return stages.assemble_descriptors(stages.max_pool_3d(maps, chain.pairs), chain.window)


def search(words: NDArray[np.float32]) -> Search:
    return lambda points: stages.quantize(points, words)


def encode(descriptors: NDArray[Any], chain: Chain) -> Codes:
    if chain.encoding == "vq":
        return stages.quantize(descriptors, chain.words()), None
    if chain.encoding == "soft":
        return stages.soft_codes(descriptors, chain.words(), chain.n_neighbors, chain.softness)
    return stages.llc_codes(descriptors, chain.words(), chain.n_neighbors)


def codes(image: Grey, chain: Chain) -> Codes:
    return encode(describe(image, chain), chain)


def pooled(image: Grey, chain: Chain) -> NDArray[np.float32]:
    full_shape = None
    result = np.zeros(0, dtype=np.float32)
    for copy in chain.scaled(image):
        words, weights = codes(copy, chain)
        full_shape = full_shape or (words.shape[0], words.shape[1])
        cells = stages.pool_cells(
            words,
            len(chain.words()),
            chain.partition,
            weights=weights,
            pooling=chain.pooling,
            full_shape=full_shape,
        )
        join = np.maximum if chain.pooling == "max" else np.add
        result = cells if not result.size else join(result, cells)
    return result


def project(codes: NDArray[np.float32], matrix: sp.csr_array) -> NDArray[np.float32]:
    return np.asarray(codes @ matrix)
