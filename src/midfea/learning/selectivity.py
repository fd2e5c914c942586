"""The neuron-selectivity layer's optimisation (Section 3 and the first appendix of the paper).

    minimise over D, H, W, b, with columns of D of unit length,

        |X - D H|^2 + alpha |H - sigmoid(W X + b 1^T)|^2
        + sum_c { lam |H_c|_{2,1} + beta |H_c - mean(H_c)|^2 + gamma |H_c^T H_{/c}|^2 }

Arrays are as in the paper: samples are columns, X (p, N), H (d, N), D (p, d), W (d, p), b (d,). The
columns are sorted by class, and `blocks` lists each class's slice of them.

Every step here lowers that objective or leaves it as it is, up to rounding. What the steps rest on:

- D: for fixed H the best unit column, the others being fixed, is its normalised residual.
- H: the row shrinkage of lam |H_c|_{2,1} is exact, after gradient steps on the rest, which is smooth.
  `gamma` counts every pair of classes twice, hence the 4 gamma in its gradient and the 2 gamma in
  the subproblem of one class (the appendix, which has gamma there, forgets the other sum's share).
- W, b: see `midfea.learning.encoder`.

The paper's own plain steps are in `midfea.learning.selectivity_plain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.learning.encoder import encode

Array = NDArray[Any]
Blocks = Sequence[slice]

COLUMNS_LIMIT = 256  # neurons up to which D is updated column by column
BACKTRACKS = 40
MEMORY = 4  # steps among which the value must fall
IDLE = 20  # steps in a row that gain nothing but rounding: the codes have settled


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


def class_blocks(y: NDArray[np.intp]) -> list[slice]:
    """The slice of each class in sorted class numbers."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(y)) + 1, [len(y)]])
    return [slice(a, b) for a, b in pairwise(edges)]


def objective_terms(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> dict[str, float]:
    """The objective's terms by name, each with its factor: their sum is the objective."""
    D, H, W, b = layer
    return {
        "reconstruction": _squares(X - D @ H),
        "encoding": weights.alpha * _squares(H - encode(X, W, b)),
        "sparsity": weights.lam * row_norms(H, blocks),
        "cohesion": weights.beta * _squares(centred(H, blocks)),
        "separation": weights.gamma * _separation(second_moment(H, blocks), _own_grams(H, blocks)),
    }


def smooth_gradients(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> Layer:
    """Derivatives of the smooth terms (all but the sparsity) by D, H, W and b."""
    D, H, W, b = layer
    S = encode(X, W, b)
    residual = D @ H - X
    by_z = 2 * weights.alpha * (S - H) * S * (1 - S)
    by_H = 2 * D.T @ residual + 2 * weights.alpha * (H - S)
    by_H += 2 * weights.beta * centred(H, blocks)
    own = _own_part(H, blocks, _own_grams(H, blocks))
    by_H += 4 * weights.gamma * (second_moment(H, blocks) @ H - own)
    return Layer(2 * residual @ H.T, by_H, by_z @ X.T, by_z.sum(axis=1))


# -- the parts of the objective ---------------------------------------------------------------------


def _squares(a: Array) -> float:
    return _inner(a, a)


def _inner(a: Array, b: Array) -> float:
    return float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))


def row_norms(H: Array, blocks: Blocks) -> float:
    """sum_c |H_c|_{2,1}"""
    return sum(
        float(np.sqrt(np.einsum("ij,ij->i", H[:, c], H[:, c])).sum(dtype=np.float64)) for c in blocks
    )


def centred(H: Array, blocks: Blocks) -> Array:
    """H_c - mean(H_c) for every class."""
    out = np.empty_like(H)
    for c in blocks:
        np.subtract(H[:, c], H[:, c].mean(axis=1, keepdims=True), out=out[:, c])
    return out


def second_moment(H: Array, blocks: Blocks) -> Array:
    """H H^T. Rows that are zero in a whole class, once they are most, cost nothing."""
    active = _active(H, blocks)
    if active is None:
        return H @ H.T
    total = np.zeros((len(H), len(H)), dtype=H.dtype)
    for c, rows in zip(blocks, active, strict=True):
        part = H[rows, c]
        total[rows[:, None], rows] += part @ part.T
    return total


def _times(M: Array, H: Array, blocks: Blocks) -> Array:
    """M H for symmetric M, likewise."""
    active = _active(H, blocks)
    if active is None:
        return M @ H
    out = np.empty_like(H)
    for c, rows in zip(blocks, active, strict=True):
        out[:, c] = M[rows].T @ H[rows, c]
    return out


def _active(H: Array, blocks: Blocks) -> list[NDArray[np.intp]] | None:
    """The rows that are not zero in each class; None if that is no small part of them."""
    fires = np.logical_or.reduceat(H != 0, [c.start for c in blocks], axis=1)
    return [np.flatnonzero(rows) for rows in fires.T] if fires.mean() < 0.2 else None


def _own_grams(H: Array, blocks: Blocks) -> list[Array]:
    """H_c^T H_c for every class."""
    return [H[:, c].T @ H[:, c] for c in blocks]


def _own_part(H: Array, blocks: Blocks, grams: list[Array]) -> Array:
    """H_c H_c^T H_c for every class."""
    out = np.empty_like(H)
    for c, gram in zip(blocks, grams, strict=True):
        np.matmul(H[:, c], gram, out=out[:, c])
    return out


def _separation(moment: Array, grams: list[Array]) -> float:
    """sum_c |H_c^T H_{/c}|^2 = |H H^T|^2 - sum_c |H_c^T H_c|^2"""
    return _squares(moment) - sum(map(_squares, grams))


# -- D ----------------------------------------------------------------------------------------------


def update_D(
    X: Array,
    layer: Layer,
    *,
    method: Literal["auto", "columns", "gradient"] = "auto",
    max_iter: int = 10,
    tol: float = 1e-4,
) -> Array:
    """A better dictionary for fixed H.

    "columns": each column in turn becomes the best one, the others being fixed. "gradient": all at
    once, each minimising a bound of the objective: H H^T is replaced by the diagonal of its rows'
    absolute sums, which is never smaller, so a step never raises the objective. Up to `max_iter`
    sweeps, fewer if one gains less than `tol` of the residual.
    """
    D, H = layer.D.copy(), layer.H
    moment = H @ H.T
    cross = X @ H.T
    in_turn = method == "columns" or (method == "auto" and len(H) <= COLUMNS_LIMIT)
    bound = np.abs(moment).sum(axis=1)
    fit = np.inf
    for _ in range(max_iter):
        if in_turn:
            for j in np.flatnonzero(np.diagonal(moment) > 0):
                near = np.flatnonzero(moment[j])
                D[:, j] = _unit(cross[:, j] - D[:, near] @ moment[near, j] + moment[j, j] * D[:, j],
                                D[:, j])  # fmt: skip
            slope = D @ moment
        else:
            slope = D @ moment if fit == np.inf else slope
            D = _unit(cross - slope + bound * D, D)
            slope = D @ moment
        previous, fit = fit, _inner(D, slope - 2 * cross)
        if previous - fit <= tol * (fit + _squares(X)):
            break
    return D


def _unit(columns: Array, otherwise: Array) -> Array:
    """The columns at unit length; those of length zero stay as they were."""
    lengths = np.sqrt(np.einsum("i...,i...->...", columns, columns))
    fine = lengths > 0
    return np.where(fine, columns / np.where(fine, lengths, 1), otherwise)


# -- H ----------------------------------------------------------------------------------------------


def update_H(
    X: Array,
    blocks: Blocks,
    layer: Layer,
    weights: Weights,
    *,
    method: Literal["together", "by class"] = "together",
    nonnegative: bool = False,
    max_iter: int = 30,
    tol: float = 1e-4,
) -> Array:
    """Better codes for fixed D, W, b by proximal gradient steps.

    "together" moves all classes in each of up to `max_iter` steps; "by class" solves one class's
    convex problem after the other in up to `max_iter` steps each. Either stops at a step that gains
    less than `tol` of the value. With `nonnegative`, H >= 0 becomes a constraint.
    """
    D, H = layer.D, layer.H
    S = encode(X, layer.W, layer.b)
    pull = D.T @ X
    pull += weights.alpha * S
    gram = D.T @ D
    gram[np.diag_indices_from(gram)] += weights.alpha
    fixed = _squares(X) + weights.alpha * _squares(S)
    options: dict[str, Any] = {"nonnegative": nonnegative, "max_iter": max_iter, "tol": tol}
    if method == "together":
        everything = _Together(gram, pull, fixed, blocks, weights)
        return proximal_descent(H, blocks, everything, weights.lam, **options)
    H = H.copy()
    moment = second_moment(H, blocks)
    for c in blocks:
        own = H[:, c]
        moment -= own @ own.T
        this = _OneClass(gram + 2 * weights.gamma * moment, pull[:, c], fixed, weights.beta)
        H[:, c] = proximal_descent(own, [slice(None)], this, weights.lam, **options)
        moment += H[:, c] @ H[:, c].T
    return H


class _Together:
    """The smooth terms as a function of H: value, and gradient from what the value left."""

    def __init__(self, gram: Array, pull: Array, fixed: float, blocks: Blocks, weights: Weights) -> None:
        self.gram, self.pull, self.fixed = gram, pull, fixed
        self.blocks, self.weights = blocks, weights

    def value(self, H: Array) -> float:
        _, beta, gamma, _ = self.weights
        self.moment = second_moment(H, self.blocks)
        self.centred = centred(H, self.blocks)
        self.grams = _own_grams(H, self.blocks)
        value = self.fixed + _inner(self.gram, self.moment) - 2 * _inner(self.pull, H)
        value += beta * _squares(self.centred)
        return value + gamma * _separation(self.moment, self.grams)

    def gradient(self, H: Array) -> Array:
        """At the H whose value was computed last."""
        _, beta, gamma, _ = self.weights
        half = _times(self.gram + 2 * gamma * self.moment, H, self.blocks)
        half -= self.pull
        own = _own_part(H, self.blocks, self.grams)
        own *= 2 * gamma
        half -= own
        self.centred *= beta
        half += self.centred
        half *= 2
        return half


class _OneClass:
    """The same for one class, the others being fixed: a convex quadratic."""

    def __init__(self, curvature: Array, pull: Array, fixed: float, beta: float) -> None:
        self.curvature, self.pull, self.fixed, self.beta = curvature, pull, fixed, beta

    def value(self, H: Array) -> float:
        self.half = self.curvature @ H
        self.half += self.beta * (H - H.mean(axis=1, keepdims=True))
        return self.fixed + _inner(H, self.half - 2 * self.pull)

    def gradient(self, H: Array) -> Array:
        return 2 * (self.half - self.pull)


def shrink_rows(H: Array, blocks: Blocks, amount: float, nonnegative: bool = False) -> Array:
    """The minimiser of |Z - H|^2 / 2 + amount sum_c |Z_c|_{2,1}, over Z >= 0 if so asked."""
    if nonnegative:
        H = np.maximum(H, 0)  # exact: clip, then shrink
    out = np.empty_like(H)
    for c in blocks:
        part = H[:, c]
        norms = np.sqrt(np.einsum("ij,ij->i", part, part))
        kept = np.maximum(norms - amount, 0) / np.where(norms > 0, norms, 1)
        np.multiply(part, kept[:, None].astype(H.dtype), out=out[:, c])
    return out


def proximal_descent(
    H: Array,
    blocks: Blocks,
    smooth: _Together | _OneClass,
    lam: float,
    *,
    nonnegative: bool,
    max_iter: int,
    tol: float,
) -> Array:
    """Steps of the length that the last change of the gradient suggests (Barzilai and Borwein).

    Such steps are fast because they may go up now and then: one is halved only until its value is below
    the largest of the last few by a share of what it promises. The best codes met are returned, so
    that the whole never goes up.
    """
    value = smooth.value(H) + lam * row_norms(H, blocks)
    gradient = smooth.gradient(H)
    rounding = 4 * float(np.finfo(H.dtype).eps)
    length = 1 / max(_largest_slope(smooth, H, gradient), rounding)
    best, lowest, idle = H, value, 0
    recent = [value]
    for _ in range(max_iter):
        for _ in range(BACKTRACKS):
            moved = shrink_rows(H - H.dtype.type(length) * gradient, blocks, length * lam, nonnegative)
            change = moved - H
            squared = _squares(change)
            value = smooth.value(moved) + lam * row_norms(moved, blocks)
            if value <= max(recent) - 1e-4 / length * squared + rounding * abs(lowest):
                break
            length /= 2
        else:
            break
        H, gain = moved, lowest - value
        recent = [*recent[1 - MEMORY :], value]
        if gain > 0:
            best, lowest = H, value
        idle = idle + 1 if gain <= max(tol, rounding) * abs(lowest) else 0
        if squared == 0 or idle == (IDLE if tol == 0 else MEMORY):
            break
        old, gradient = gradient, smooth.gradient(H)
        bent = _inner(change, gradient - old)
        length = squared / bent if bent > 0 else 2 * length
    return best


def _largest_slope(smooth: _Together | _OneClass, H: Array, gradient: Array) -> float:
    """The curvature along the gradient, for the first step's length."""
    squared = _squares(gradient)
    if squared == 0:
        return 1.0
    probe = H.dtype.type(1e-3 / np.sqrt(squared)) * gradient
    smooth.value(H + probe)
    bent = _inner(probe, smooth.gradient(H + probe) - gradient)
    smooth.value(H)
    return max(bent / _squares(probe), 0.0)
