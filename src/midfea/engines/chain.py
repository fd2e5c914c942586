"""`Chain`: what an engine must know to turn an image into pooled codes. It never changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.resize import Grey, resize, scaled_shape
from midfea.stages.low_level import Padding
from midfea.stages.pooling import Level, Partition, Pooling, partition_levels

Encoding = Literal["vq", "soft", "llc"]


class Scaled(NamedTuple):
    """An image, or a stack of images, at one scale, and the cells in which its codes are pooled."""

    image: Grey
    levels: list[Level]


@dataclass(frozen=True, kw_only=True, eq=False)
class Chain:
    """The parameters of Section 2's chain, from the filters to the cells. See `midfea.MidFea`."""

    filters: NDArray[np.float32]
    codebook: NDArray[np.float32] | None
    rectify: bool
    floor: float
    padding: Padding
    pairs: bool
    window: int
    scales: tuple[float, ...]
    encoding: Encoding
    n_neighbors: int
    sharpness: float
    partition: Partition
    pooling: Pooling
    rounded: bool = False  # scaled images are rounded to 8 bits: models of file format 1

    @property
    def n_components(self) -> int:
        """Length of a descriptor."""
        n = len(self.filters)
        return self.window**2 * (n * (n - 1) // 2 if self.pairs else n)

    @property
    def n_nearest(self) -> int:
        """Words in the code of a descriptor."""
        return 1 if self.encoding == "vq" else self.n_neighbors

    @property
    def min_side(self) -> int:
        """Pixels that a scaled image needs on its shorter side."""
        return min_side(self.filters.shape[1], self.window, self.padding)

    @property
    def min_image_side(self) -> int:
        """Pixels that an image needs on its shorter side."""
        return min_side(self.filters.shape[1], self.window, self.padding, self.scales)

    @property
    def words(self) -> NDArray[np.float32]:
        """The codebook, which must have been learned."""
        assert self.codebook is not None
        return self.codebook

    def grid(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of descriptors in an image of that shape."""
        lost = self.filters.shape[1] - 1 if self.padding == "valid" else 0
        rows, columns = (-(-(side - lost) // 2) - self.window + 1 for side in shape)
        return rows, columns

    def n_cells(self, shape: tuple[int, ...]) -> int:
        """Cells of the partition in an image of that shape."""
        levels = partition_levels(self.partition, self.grid(shape))
        return sum(len(rows) * len(columns) for rows, columns in levels)

    def scaled_shapes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """The shapes of an image at the scales that hold a descriptor; the largest always counts."""
        shapes = [scaled_shape(shape, scale) for scale in sorted(self.scales, reverse=True)]
        return shapes[:1] + [smaller for smaller in shapes[1:] if min(smaller) >= self.min_side]

    def scaled(self, image: Grey) -> list[Scaled]:
        """An image at each of its scales."""
        shapes = self.scaled_shapes(image.shape)
        full = self.grid(shapes[0])
        return [
            Scaled(resize(image, shape, self.rounded), levels_of(self.partition, self.grid(shape), full))
            for shape in shapes
        ]


def min_side(filter_size: int, window: int, padding: Padding, scales: Sequence[float] = (1.0,)) -> int:
    """Pixels an image needs on its shorter side to hold one descriptor at the largest of its scales."""
    maps = 2 * window - 1
    least = maps + filter_size - 1 if padding == "valid" else max(maps, filter_size)
    return math.ceil(least / min(max(scales), 1.0))


def levels_of(partition: Partition, shape: tuple[int, int], full: tuple[int, int]) -> list[Level]:
    """`partition_levels`, remembered: many images have one size."""
    if isinstance(partition, dict):
        return partition_levels(partition, shape, full)
    return _remembered_levels(partition, shape, full)


_remembered_levels = lru_cache(maxsize=1024)(partition_levels)
