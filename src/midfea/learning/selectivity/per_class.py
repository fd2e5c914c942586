"""What is done class by class to arrays whose columns, the samples, are sorted by class.

`blocks` lists each class's slice of the columns. numpy takes the classes one after the other; torch
takes them all at once, filled up with zeros to the size of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace

Blocks = Sequence[slice]


def class_blocks(y: NDArray[np.intp]) -> list[slice]:
    """The slice of each class in sorted class numbers."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(y)) + 1, [len(y)]])
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def class_sums(a: Array, blocks: Blocks) -> Array:
    """Sums over each class's columns, (d, n_classes)."""
    if isinstance(a, np.ndarray):
        return np.add.reduceat(a, [c.start for c in blocks], axis=1)
    return _filled(a, blocks).sum(axis=2)


def class_means(a: Array, blocks: Blocks) -> Array:
    """Means over each class's columns, (d, n_classes)."""
    return class_sums(a, blocks) / namespace(a).asarray(_sizes(blocks), dtype=a.dtype, device=a.device)


def for_samples(values: Array, blocks: Blocks) -> Array:
    """A class's column of `values` (d, n_classes) for each of its samples: (d, N)."""
    if isinstance(values, np.ndarray):
        return np.repeat(values, _sizes(blocks), axis=1)
    return values[:, _places(_sizes(blocks), values.device).owners]


def own_grams(H: Array, blocks: Blocks) -> Sequence[Array]:
    """H_c^T H_c for every class."""
    if isinstance(H, np.ndarray):
        return [H[:, c].T @ H[:, c] for c in blocks]
    parts = _filled(H, blocks).movedim(1, 0)
    return parts.mT @ parts


def times_own(H: Array, grams: Sequence[Array], blocks: Blocks) -> Array:
    """H_c G_c for every class."""
    if isinstance(H, np.ndarray):
        out = np.empty_like(H)
        for c, gram in zip(blocks, grams, strict=True):
            np.matmul(H[:, c], gram, out=out[:, c])
        return out
    products = _filled(H, blocks).movedim(1, 0) @ grams
    return products.movedim(0, 1).flatten(1)[:, _places(_sizes(blocks), H.device).back]


def _sizes(blocks: Blocks) -> tuple[int, ...]:
    return tuple(c.stop - c.start for c in blocks)


def _filled(a: Array, blocks: Blocks) -> Array:
    """(d, n_classes, size of the largest class)"""
    columns = _places(_sizes(blocks), a.device).columns
    return namespace(a).nn.functional.pad(a, (0, 1))[:, columns]


class _Places(NamedTuple):
    """Where columns lie in an array filled up to (n_classes, size of the largest class)."""

    owners: Array  # (N,), the class of each column
    columns: Array  # (n_classes, largest), each class's columns; N where there are no more
    back: Array  # (N,), where to find each column in `columns`, flattened


@lru_cache(maxsize=8)
def _places(sizes: tuple[int, ...], device: Any) -> _Places:
    import torch

    owners = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]
    columns = np.full((len(sizes), max(sizes)), len(owners))
    columns[owners, within] = np.arange(len(owners))
    places = (owners, columns, owners * max(sizes) + within)
    return _Places(*(torch.as_tensor(numbers, device=device) for numbers in places))
