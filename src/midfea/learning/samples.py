"""Features of samples that do not fit into memory: read block by block, as often as is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from midfea.learning.folds import Indices
from midfea.parallel import prefetched
from midfea.progress import track

Features = NDArray[np.float32]

BYTES_OF_BLOCK = 2**24  # of features that are in memory at one time; two blocks are


class Samples(Protocol):
    """Rows of features, read from the first to the last as often as is needed."""

    @property
    def n_features(self) -> int:
        """The length of a row."""

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""

    def __len__(self) -> int:
        """How many samples there are."""

    def blocks(self) -> Iterator[Features]:
        """All samples in their order, some of them at a time."""


class Block(NamedTuple):
    """Samples that follow each other: their numbers and their features."""

    rows: slice
    features: Features


def read(samples: Samples, step: str) -> Iterator[Block]:
    """All samples; the next block is read meanwhile. `step` is what the progress is called."""
    first = 0
    for features in track(prefetched(samples.blocks()), step, samples.n_blocks):
        yield Block(slice(first, first + len(features)), features)
        first += len(features)


def rows_of_block(n_features: int) -> int:
    """How many samples a block has."""
    return max(1, BYTES_OF_BLOCK // (4 * n_features))


@dataclass(frozen=True, eq=False)
class ArraySamples:
    """`Samples` of an array (n, p)."""

    features: Features

    @property
    def n_features(self) -> int:
        """See `Samples`."""
        return int(self.features.shape[1])

    @property
    def n_blocks(self) -> int:
        """See `Samples`."""
        return -(-len(self.features) // rows_of_block(self.n_features))

    def __len__(self) -> int:
        return len(self.features)

    def blocks(self) -> Iterator[Features]:
        """See `Samples`."""
        size = rows_of_block(self.n_features)
        for first in range(0, len(self.features), size):
            yield self.features[first : first + size]


@dataclass(frozen=True, eq=False)
class MappedSamples:
    """`Samples` of what a function, such as an NS layer, makes of the features of others."""

    samples: Samples
    function: Callable[[Features], Features]
    n_features: int

    @property
    def n_blocks(self) -> int:
        """See `Samples`."""
        return self.samples.n_blocks

    def __len__(self) -> int:
        return len(self.samples)

    def blocks(self) -> Iterator[Features]:
        """See `Samples`."""
        return map(self.function, self.samples.blocks())


def take(samples: Samples, indices: Indices, step: str) -> Features:
    """Some of the samples, (len(indices), p); `indices` are sorted."""
    taken = np.empty((len(indices), samples.n_features), dtype=np.float32)
    done = 0
    for rows, features in read(samples, step):
        end = int(np.searchsorted(indices, rows.stop))
        taken[done:end] = features[indices[done:end] - rows.start]
        done = end
    return taken
