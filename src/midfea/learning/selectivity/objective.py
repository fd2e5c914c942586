"""What the neuron-selectivity layer minimises (Section 3 and the first appendix of the paper).

    minimise over D, H, W, b, with columns of D of unit length,

        |X - D H|^2 + alpha |H - sigmoid(W X + b 1^T)|^2
        + sum_c { lam |H_c|_{2,1} + beta |H_c - mean(H_c)|^2 + gamma |H_c^T H_{/c}|^2 }

Arrays are as in the paper: samples are columns, X (p, N), H (d, N), D (p, d), W (d, p), b (d,). The
columns are sorted by class, and `blocks` lists each class's slice of them.

`gamma` counts every pair of classes twice, hence the 4 gamma in its gradient and the 2 gamma in the
subproblem of one class (the appendix, which has gamma there, forgets the other sum's share).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, special

Blocks = Sequence[slice]

MAX_ACTIVE_SHARE = 0.2  # of codes that are not silent, up to which the silent ones are left out


class Weights(NamedTuple):
    """The factors of the objective's terms."""

    alpha: float = 0.9
    beta: float = 0.5
    gamma: float = 2.0
    lam: float = 0.8


class Layer(NamedTuple):
    """The variables."""

    D: Array
    H: Array
    W: Array
    b: Array


def encode(X: Array, W: Array, b: Array) -> Array:
    """sigmoid(W X + b 1^T), the activations (d, N) of samples X (p, N)."""
    activations = W @ X
    activations += b[:, None]
    return special(X).expit(activations, out=activations)


def objective_terms(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> dict[str, float]:
    """The objective's terms by name, each with its factor: their sum is the objective."""
    D, H, W, b = layer
    terms = {
        "reconstruction": squares(X - D @ H),
        "encoding": weights.alpha * squares(H - encode(X, W, b)),
        "sparsity": weights.lam * row_norms(H, blocks).sum(dtype=namespace(H).float64),
        "cohesion": weights.beta * squares(centred(H, blocks)),
        "separation": weights.gamma * separation(second_moment(H, blocks), own_grams(H, blocks)),
    }
    return {name: float(value) for name, value in terms.items()}


def inner(a: Array, b: Array) -> Any:
    """The sum of a * b; torch's stays on the device, which need not be waited for."""
    xp = namespace(a)
    return xp.einsum("...ij,...ij->...i", a, b).sum(dtype=xp.float64)


def squares(a: Array) -> Any:
    """The sum of squares."""
    return inner(a, a)


def row_norms(H: Array, blocks: Blocks) -> Array:
    """The length of every row of every H_c, (d, n_classes); their sum is sum_c |H_c|_{2,1}."""
    return class_sums(H * H, blocks) ** 0.5


def centred(H: Array, blocks: Blocks) -> Array:
    """H_c - mean(H_c) for every class."""
    return H - for_samples(class_means(H, blocks), blocks)


def second_moment(H: Array, blocks: Blocks) -> Array:
    """H H^T. Rows that are zero in a whole class, once they are most, cost nothing."""
    active = _active_rows(H, blocks)
    if active is None:
        return H @ H.T
    total = np.zeros((len(H), len(H)), dtype=H.dtype)
    for c, rows in zip(blocks, active, strict=True):
        part = H[rows, c]
        total[rows[:, None], rows] += part @ part.T
    return total


def symmetric_product(M: Array, H: Array, blocks: Blocks) -> Array:
    """M H for symmetric M; rows that are zero in a whole class cost nothing, as above."""
    active = _active_rows(H, blocks)
    if active is None:
        return M @ H
    out = np.empty_like(H)
    for c, rows in zip(blocks, active, strict=True):
        out[:, c] = M[rows].T @ H[rows, c]
    return out


def _active_rows(H: Array, blocks: Blocks) -> list[NDArray[np.intp]] | None:
    """The rows that are not zero in each class; None if that is no small part of them.

    None for torch too: a GPU multiplies faster than it is told what to leave out.
    """
    if not isinstance(H, np.ndarray):
        return None
    fires = np.logical_or.reduceat(H != 0, [c.start for c in blocks], axis=1)
    if fires.mean() >= MAX_ACTIVE_SHARE:
        return None
    return [np.flatnonzero(rows) for rows in fires.T]


def separation(moment: Array, grams: Sequence[Array]) -> Any:
    """sum_c |H_c^T H_{/c}|^2 = |H H^T|^2 - sum_c |H_c^T H_c|^2"""
    own = sum(map(squares, grams)) if isinstance(grams, list) else squares(grams)
    return squares(moment) - own


# -- class by class: numpy takes the classes one after the other, torch all at once, filled up with zeros
# -- to the size of the largest


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
