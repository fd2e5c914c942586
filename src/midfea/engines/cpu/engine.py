"""The fast engine: compiled loops, and an exact search for the nearest words.

Nothing of the size "all descriptors x all words" is ever stored: the memory for one image is its
descriptors, and what `search` needs for the words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.engines.chain import Chain, Scaled
from midfea.engines.cpu import kernels
from midfea.engines.cpu.search import WordIndex
from midfea.engines.cpu.ties import settle
from midfea.engines.prepared import ArrayChain, Codes, Projection, Search
from midfea.engines.reference import ReferenceEngine
from midfea.pictures.resize import Grey
from midfea.stages.low_level import FLAT, unit_length

LLC_REGULARIZATION = 1e-4  # as in `midfea.stages.llc_codes`
NO_WEIGHTS = np.empty((0, 0, 0), dtype=np.float32)


class Described(NamedTuple):
    """Descriptors (height, width, d), and the filters' responses, which decide near ties of words."""

    descriptors: NDArray[np.float32]
    responses: kernels.Responses


class CpuChain(ArrayChain[Described]):
    """The chain by compiled loops. It owns the index of its words and the signs of its projection."""

    def __init__(self, chain: Chain, projection: Projection | None = None) -> None:
        super().__init__(chain, projection)
        self.index = None if chain.codebook is None else WordIndex(chain.codebook)
        self.signs = _signs(self.projection.sparse)

    def descriptors(self, image: Grey) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        return self.describe(Scaled(image, [])).descriptors

    def pooled_maps(self, image: Grey) -> NDArray[np.float32]:
        """Soft convolution, then the maxima of 2x2 pixels: maps (n_filters, height, width)."""
        return kernels.pooled_maps(self._responses(image), self.chain.rectify)

    def _responses(self, image: Grey) -> kernels.Responses:
        chain = self.chain
        pixels = np.ascontiguousarray(image, dtype=np.float32)
        least = FLAT * float(np.abs(pixels).max())
        return kernels.respond(pixels, chain.filters, chain.padding == "same", least, chain.floor)

    def describe(self, scaled: Scaled) -> Described:
        """See `midfea.engines.walk.Steps`."""
        responses = self._responses(scaled.image)
        maps = kernels.pooled_maps(responses, self.chain.rectify)
        return Described(kernels.assemble(maps, self.chain.pairs, self.chain.window), responses)

    def encode(self, descriptors: Described) -> Codes:
        """See `midfea.engines.walk.Steps`; near ties are decided as exact descriptors would."""
        assert self.index is not None
        chain, (points, responses) = self.chain, descriptors
        words, rivals = self.index.nearest_and_rivals(
            points.reshape(-1, points.shape[-1]), chain.n_nearest
        )
        settle(words, rivals, chain.words, self.index.exact_half,
               responses, chain.rectify, chain.pairs, chain.window, points.shape[1])  # fmt: skip
        return self.weigh(points, words)

    def weigh(self, descriptors: NDArray[np.float32], words: NDArray[np.int32]) -> Codes:
        """The codes of descriptors (..., d) over their nearest words (n, k)."""
        chain, shape = self.chain, (*descriptors.shape[:-1], words.shape[1])
        if chain.encoding == "vq":
            return Codes(words.reshape(shape), None)
        points = descriptors.reshape(-1, descriptors.shape[-1])
        if chain.encoding == "soft":
            weights = kernels.soft_weights(points, chain.words, words, chain.sharpness)
        else:
            weights = kernels.llc_weights(points, chain.words, words, LLC_REGULARIZATION)
        return Codes(words.reshape(shape), weights.reshape(shape))

    def pool(
        self, codes: Codes, scaled: Scaled, table: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """See `midfea.engines.walk.Steps`; codes of another scale go into the same table."""
        n_words = len(self.chain.words)
        if table is None:
            n_cells = sum(len(rows) * len(columns) for rows, columns in scaled.levels)
            table = np.zeros(n_cells * n_words, dtype=np.float32)
        cells = table.reshape(-1, n_words)
        weights = NO_WEIGHTS if codes.weights is None else codes.weights
        maximum, start = self.chain.pooling == "max", 0
        for rows, columns in scaled.levels:
            stop = start + len(rows) * len(columns)
            kernels.pool_level(codes.words, weights, rows, columns, maximum, cells[start:stop])
            start = stop
        return table

    def project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        if self.signs is None or self.projection.mean is not None:
            return self.projection.apply(pooled)
        if pooled.shape[1] != len(self.signs.starts) - 1:  # the kernel would read beyond the end
            raise ValueError(
                f"{pooled.shape[1]} pooled codes where {len(self.signs.starts) - 1} are due"
            )
        features = np.empty((len(pooled), self.signs.n_features), dtype=np.float32)
        kernels.add_signed(pooled, self.signs.starts, self.signs.places, features)
        features *= self.signs.scale
        return unit_length(features)


class Signs(NamedTuple):
    """A sparse matrix of one number with random signs: a quarter of the memory, in cache."""

    starts: NDArray[np.int32]
    places: NDArray[np.uint16] | NDArray[np.uint32]  # twice the column, plus one for a minus
    scale: np.float32
    n_features: int


def _signs(matrix: Any) -> Signs | None:
    """A sparse matrix for `kernels.add_signed`, or None if it holds other numbers."""
    if matrix is None or not len(matrix.data):
        return None
    scale = np.abs(matrix.data[0])
    if (np.abs(matrix.data) != scale).any():
        return None
    places = 2 * matrix.indices.astype(np.int64) + (matrix.data < 0)
    small = 2 * matrix.shape[1] <= np.iinfo(np.uint16).max
    return Signs(matrix.indptr, places.astype(np.uint16 if small else np.uint32), scale, matrix.shape[1])


class CpuEngine(ReferenceEngine):
    """See `midfea.engines.prepared.Engine`."""

    def prepare(self, chain: Chain, projection: Projection | None = None) -> CpuChain:  # type: ignore[override]
        """See `Engine`."""
        return CpuChain(chain, projection)

    def search(self, words: NDArray[np.float32]) -> Search:
        """See `Engine`."""
        index = WordIndex(words)
        return lambda points: index.nearest(points)[:, 0]
