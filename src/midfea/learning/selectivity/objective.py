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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, special
from midfea.learning.selectivity.per_class import (
    Blocks,
    class_means,
    class_sums,
    for_samples,
    own_grams,
    times_own,
)

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


def smooth_gradients(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> Layer:
    """Derivatives of the smooth terms (all but the sparsity) by D, H, W and b."""
    D, H, W, b = layer
    S = encode(X, W, b)
    residual = D @ H - X
    by_z = 2 * weights.alpha * (S - H) * S * (1 - S)
    by_H = 2 * D.T @ residual + 2 * weights.alpha * (H - S)
    by_H += 2 * weights.beta * centred(H, blocks)
    own = times_own(H, own_grams(H, blocks), blocks)
    by_H += 4 * weights.gamma * (second_moment(H, blocks) @ H - own)
    return Layer(2 * residual @ H.T, by_H, by_z @ X.T, by_z.sum(axis=1))


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
