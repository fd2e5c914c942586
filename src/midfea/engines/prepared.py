"""What every engine offers: a chain prepared for many images, and the search for words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.arrays import Array
from midfea.engines.chain import Chain, Scaled
from midfea.engines.walk import codes_by_scale, pooled_codes
from midfea.pictures.resize import Grey
from midfea.stages.low_level import unit_length

Described = TypeVar("Described")
Search = Callable[[NDArray[np.float32]], NDArray[np.int32]]


class Codes(NamedTuple):
    """The codes of a grid of descriptors; VQ needs no weights."""

    words: NDArray[np.int32]  # (height, width, k)
    weights: NDArray[np.float32] | None  # (height, width, k)

    def all_weights(self) -> NDArray[np.float32]:
        """The weights; ones for VQ."""
        return np.ones(self.words.shape, np.float32) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class Projection:
    """Pooled codes to features: less the mean, times the matrix, at unit length.

    Attributes
    ----------
    matrix : (n_codes, n_features), dense or sparse; None leaves the codes as they are
    mean : (n_codes,), of principal component analysis, or None
    """

    matrix: NDArray[np.float32] | sp.csr_array | None = None
    mean: NDArray[np.float32] | None = None

    def n_features(self, n_codes: int) -> int:
        """Features of so many pooled codes."""
        return n_codes if self.matrix is None else int(self.matrix.shape[1])

    @property
    def sparse(self) -> Any:
        """The matrix (`scipy.sparse.csr_array`) if it is sparse, else None."""
        return self.matrix if sp.issparse(self.matrix) else None

    @property
    def dense(self) -> NDArray[np.float32] | None:
        """The matrix if it is dense: too large to be read anew for each image."""
        return None if sp.issparse(self.matrix) else self.matrix

    def apply(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features (n, n_features) of pooled codes (n, n_codes)."""
        shifted = pooled if self.mean is None else pooled - self.mean
        return unit_length(shifted if self.matrix is None else np.asarray(shifted @ self.matrix))


class PreparedChain(Protocol):
    """A chain with all that an engine makes of it once: word index, signs, tensors on a device."""

    chain: Chain
    projection: Projection

    def descriptors(self, image: Grey) -> NDArray[np.float32]:
        """Local descriptors of an image at its own size, (height, width, d)."""

    def codes_by_scale(self, image: Grey) -> list[tuple[Scaled, Codes]]:
        """The image at each scale, and the codes of its descriptors."""

    def pooled(self, image: Grey) -> NDArray[np.float32]:
        """Codes pooled in the cells, over all scales: (n_cells * n_words,)."""

    def project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features (n, n_features) of pooled codes (n, n_codes)."""


class BatchedChain(PreparedChain, Protocol):
    """A prepared chain that gains from many images at once, of any sizes."""

    def features(
        self, images: Iterable[Grey], n_images: int, projected: bool = True
    ) -> NDArray[np.float32]:
        """Features of the images, or their pooled codes: (n, n_features)."""


class Engine(Protocol):
    """One way to compute the chain. All engines give the same results up to rounding."""

    def prepare(self, chain: Chain, projection: Projection | None = None) -> PreparedChain:
        """The chain, ready for many images."""

    def search(self, words: NDArray[np.float32]) -> Search:
        """A function that finds the nearest of these words for each of many points."""

    def arrays(self) -> AbstractContextManager[Callable[[NDArray[Any]], Array]]:
        """In this context, a function that puts arrays where the engine works (for `learning`)."""


class ArrayChain(ABC, Generic[Described]):
    """The walk for engines that work on NumPy arrays, one image at a time."""

    def __init__(self, chain: Chain, projection: Projection | None = None) -> None:
        self.chain = chain
        self.projection = Projection() if projection is None else projection

    def scales(self, image: Grey) -> list[Scaled]:
        """See `midfea.engines.walk.Steps`."""
        return self.chain.scaled(image)

    @abstractmethod
    def describe(self, scaled: Scaled) -> Described:
        """See `midfea.engines.walk.Steps`."""

    @abstractmethod
    def encode(self, descriptors: Described) -> Codes:
        """See `midfea.engines.walk.Steps`."""

    @abstractmethod
    def pool(
        self, codes: Codes, scaled: Scaled, table: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """See `midfea.engines.walk.Steps`."""

    def codes_by_scale(self, image: Grey) -> list[tuple[Scaled, Codes]]:
        """See `PreparedChain`."""
        return list(codes_by_scale(image, self))

    def pooled(self, image: Grey) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        return pooled_codes(image, self)

    def project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `PreparedChain`."""
        return self.projection.apply(pooled)
