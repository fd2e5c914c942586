"""What an engine needs to know to turn images into pooled codes; fitted or loaded, never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.pictures.images import Grey, resize, scaled_shape
from midfea.stages.low_level import Padding
from midfea.stages.pooling import Partition, Pooling

Encoding = Literal["vq", "soft", "llc"]
Search = Callable[[NDArray[np.float32]], NDArray[np.int32]]
Codes = tuple[NDArray[np.int32], NDArray[np.float32] | None]  # words and weights; VQ needs none


@dataclass(frozen=True)
class Chain:
    """The parameters of Section 2's chain, from the filters to the cells."""

    filters: NDArray[np.float32]
    codebook: NDArray[np.float32] | None = None
    rectify: bool = True
    floor: float = 0.0
    padding: Padding = "valid"
    pairs: bool = True
    window: int = 2
    scales: tuple[float, ...] = (1.0,)
    encoding: Encoding = "vq"
    n_neighbors: int = 5
    softness: float = 10.0
    partition: Partition = "pyramid"
    pooling: Pooling = "max"

    @property
    def n_components(self) -> int:
        """Length of a descriptor."""
        n = len(self.filters)
        return self.window**2 * (n * (n - 1) // 2 if self.pairs else n)

    @property
    def n_nearest(self) -> int:
        """Words in the code of a descriptor."""
        return 1 if self.encoding == "vq" else self.n_neighbors

    def grid(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of descriptors in an image of that shape."""
        lost = self.filters.shape[1] - 1 if self.padding == "valid" else 0
        rows, columns = (-(-(side - lost) // 2) - self.window + 1 for side in shape)
        return rows, columns

    def words(self) -> NDArray[np.float32]:
        """The codebook, which must have been learned."""
        assert self.codebook is not None
        return self.codebook

    def scaled(self, image: Grey) -> list[Grey]:
        """The image at each scale that still holds a descriptor; the largest scale always counts."""
        return [resize(image, shape) for shape in self.scaled_shapes(image.shape)]

    def scaled_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """The shapes of `scaled`."""
        shapes = [scaled_shape(shape, scale) for scale in sorted(self.scales, reverse=True)]
        least = min_side(self.filters.shape[1], self.window, self.padding)
        return shapes[:1] + [smaller for smaller in shapes[1:] if min(smaller) >= least]


def min_side(filter_size: int, window: int, padding: Padding) -> int:
    """Pixels an image needs on its shorter side to hold one descriptor."""
    maps = 2 * window - 1
    return maps + filter_size - 1 if padding == "valid" else max(maps, filter_size)


class Engine(Protocol):
    """One way to compute the chain. All engines give the same results up to rounding."""

    def describe(self, image: Grey, chain: Chain) -> NDArray[np.float32]:
        """Local descriptors of one image, (height, width, d)."""

    def search(self, words: NDArray[np.float32]) -> Search:
        """A function that finds the nearest of these words for each of many points."""

    def encode(self, descriptors: NDArray[Any], chain: Chain) -> Codes:
        """Words and weights of descriptors of any leading shape: (..., k) each, or (...), None."""

    def codes(self, image: Grey, chain: Chain) -> Codes:
        """Words and weights of the descriptors of one image."""

    def pooled(self, image: Grey, chain: Chain) -> NDArray[np.float32]:
        """Codes pooled in the cells, over all scales: (n_cells * n_words,)."""

    def project(self, codes: NDArray[np.float32], matrix: sp.csr_array) -> NDArray[np.float32]:
        """Pooled codes (n, n_codes) times a sparse matrix."""


class BatchEngine(Engine, Protocol):
    """An engine that gains from many images at once, of any sizes (`takes_batches`)."""

    def pooled_many(self, images: Sequence[Grey], chain: Chain) -> NDArray[np.float32]:
        """`pooled` of each image: (n, n_codes)."""

    def features(
        self,
        images: Iterable[Grey],
        n_images: int,
        chain: Chain,
        matrix: Any,
        mean: NDArray[Any] | None,
    ) -> NDArray[np.float32]:
        """Pooled codes, less the mean if there is one, times the matrix if there is one, unit length."""
