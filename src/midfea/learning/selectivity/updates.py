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
- W, b: see `midfea.learning.selectivity.encoder`.

The paper's own plain steps are in `midfea.learning.selectivity.plain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, ratio
from midfea.learning.selectivity.encoder import encode
from midfea.learning.selectivity.per_class import (
    Blocks,
    class_means,
    class_sums,
    for_samples,
    own_grams,
    times_own,
)

COLUMNS_LIMIT = 256  # neurons up to which D is updated column by column
LENGTH = 0.7  # of steps for H: 1 is safe while one class's codes move alone, 1/2 when all do
HALVINGS = 10
PATIENCE, IDLE = 4, 20  # steps in a row that gain too little, or nothing but rounding: enough


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


def objective_terms(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> dict[str, float]:
    """The objective's terms by name, each with its factor: their sum is the objective."""
    D, H, W, b = layer
    terms = {
        "reconstruction": _squares(X - D @ H),
        "encoding": weights.alpha * _squares(H - encode(X, W, b)),
        "sparsity": weights.lam * row_norms(H, blocks),
        "cohesion": weights.beta * _squares(centred(H, blocks)),
        "separation": weights.gamma * _separation(second_moment(H, blocks), own_grams(H, blocks)),
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


# -- the parts of the objective ---------------------------------------------------------------------


def _squares(a: Array) -> Any:
    return _inner(a, a)


def _inner(a: Array, b: Array) -> Any:
    """A number; torch's stays on the device, which need not be waited for."""
    xp = namespace(a)
    return xp.einsum("...ij,...ij->...i", a, b).sum(dtype=xp.float64)


def row_norms(H: Array, blocks: Blocks) -> Any:
    """sum_c |H_c|_{2,1}"""
    return _norms(H, blocks).sum(dtype=namespace(H).float64)


def _norms(H: Array, blocks: Blocks) -> Array:
    """The length of every row of every H_c, (d, n_classes)."""
    return class_sums(H * H, blocks) ** 0.5


def centred(H: Array, blocks: Blocks) -> Array:
    """H_c - mean(H_c) for every class."""
    return H - for_samples(class_means(H, blocks), blocks)


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
    """The rows that are not zero in each class; None if that is no small part of them.

    None for torch too: a GPU multiplies faster than it is told what to leave out.
    """
    if not isinstance(H, np.ndarray):
        return None
    fires = np.logical_or.reduceat(H != 0, [c.start for c in blocks], axis=1)
    return [np.flatnonzero(rows) for rows in fires.T] if fires.mean() < 0.2 else None


def _separation(moment: Array, grams: Sequence[Array]) -> Any:
    """sum_c |H_c^T H_{/c}|^2 = |H H^T|^2 - sum_c |H_c^T H_c|^2"""
    own = sum(map(_squares, grams)) if isinstance(grams, list) else _squares(grams)
    return _squares(moment) - own


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
    xp = namespace(X)
    D, H = xp.asarray(layer.D, copy=True), layer.H
    moment = H @ H.T
    cross = X @ H.T
    in_turn = method == "columns" or (method == "auto" and len(H) <= COLUMNS_LIMIT)
    bound = abs(moment).sum(axis=1)
    fit = np.inf
    for _ in range(max_iter):
        if in_turn:
            for j in xp.where(moment.diagonal() > 0)[0].tolist():
                near = xp.where(moment[j] != 0)[0]
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
    xp = namespace(columns)
    lengths = xp.einsum("i...,i...->...", columns, columns) ** 0.5
    fine = lengths > 0
    return xp.where(fine, columns / xp.where(fine, lengths, 1), otherwise)


# -- H ----------------------------------------------------------------------------------------------


def update_H(
    X: Array,
    blocks: Blocks,
    layer: Layer,
    weights: Weights,
    *,
    method: Literal["together", "by class"] = "together",
    nonnegative: bool = False,
    max_iter: int = 45,
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
    diagonal = namespace(X).arange(len(gram), device=X.device)
    gram[diagonal, diagonal] += weights.alpha
    fixed = _squares(X) + weights.alpha * _squares(S)
    options: dict[str, Any] = {"nonnegative": nonnegative, "max_iter": max_iter, "tol": tol}
    if method == "together":
        everything = _Together(gram, pull, fixed, blocks, weights)
        return proximal_descent(H, blocks, everything, weights.lam, **options)
    H = namespace(X).asarray(H, copy=True)
    moment = second_moment(H, blocks)
    for c in blocks:
        own = H[:, c]
        moment -= own @ own.T
        this = _OneClass(gram + 2 * weights.gamma * moment, pull[:, c], fixed, weights.beta)
        H[:, c] = proximal_descent(own, [slice(0, own.shape[1])], this, weights.lam, **options)
        moment += H[:, c] @ H[:, c].T
    return H


class _Together:
    """The smooth terms as a function of H: value, and derivatives from what the value left."""

    def __init__(self, gram: Array, pull: Array, fixed: Any, blocks: Blocks, weights: Weights) -> None:
        self.gram, self.pull, self.fixed = gram, pull, fixed
        self.blocks, self.weights = blocks, weights

    def value(self, H: Array) -> Any:
        _, beta, gamma, _ = self.weights
        self.moment = second_moment(H, self.blocks)
        self.centred = centred(H, self.blocks)
        self.grams = own_grams(H, self.blocks)
        value = self.fixed + _inner(self.gram, self.moment) - 2 * _inner(self.pull, H)
        value += beta * _squares(self.centred)
        return value + gamma * _separation(self.moment, self.grams)

    def derivatives(self, H: Array) -> tuple[Array, Array]:
        """Gradient, and a curvature for each row, at the H whose value was computed last."""
        _, beta, gamma, _ = self.weights
        curvature = self.gram + 2 * gamma * self.moment
        half = _times(curvature, H, self.blocks)
        half -= self.pull
        own = times_own(H, self.grams, self.blocks)
        own *= 2 * gamma
        half -= own
        self.centred *= beta
        half += self.centred
        half *= 2
        return half, _row_bound(curvature, beta)


class _OneClass:
    """The same for one class, the others being fixed: a convex quadratic."""

    def __init__(self, curvature: Array, pull: Array, fixed: Any, beta: float) -> None:
        self.curvature, self.pull, self.fixed, self.beta = curvature, pull, fixed, beta
        self.bound = _row_bound(curvature, beta)

    def value(self, H: Array) -> Any:
        self.half = self.curvature @ H
        self.half += self.beta * (H - H.mean(axis=1, keepdims=True))
        return self.fixed + _inner(H, self.half - 2 * self.pull)

    def derivatives(self, H: Array) -> tuple[Array, Array]:
        return 2 * (self.half - self.pull), self.bound


def _row_bound(curvature: Array, beta: float) -> Array:
    """A diagonal, as a column, never smaller than the matrix 2 (curvature + beta I): its rows' sums."""
    return 2 * (abs(curvature).sum(axis=1, keepdims=True) + beta)


def shrink_rows(H: Array, blocks: Blocks, amount: Any, nonnegative: bool = False) -> Array:
    """The minimiser of |Z - H|^2 / 2 + amount sum_c |Z_c|_{2,1}, over Z >= 0 if so asked.

    amount : a number, or a column with one for each row
    """
    if nonnegative:
        H = H.clip(0)  # exact: clip, then shrink
    norms = _norms(H, blocks)
    kept = ratio((norms - amount).clip(0), norms)
    return H * for_samples(kept, blocks)


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
    """Accelerated steps (FISTA), each row's measured by its curvature.

    Rows whose neurons fire in many classes are curved much more than others. A step starts `ahead`,
    where the last two point to; one that does not lower the value is made again without running ahead,
    and then halved. Unlike steps whose length follows the last change (Barzilai and Borwein), which are
    as fast, these keep small differences small: every machine reaches the same objective.
    """
    rounding = 4 * float(namespace(H).finfo(H.dtype).eps)
    patience = IDLE if tol == 0 else PATIENCE
    best = ahead = H
    lowest = float(smooth.value(H) + lam * row_norms(H, blocks))
    length, pace, idle = LENGTH, 1.0, 0
    for _ in range(max_iter):
        gradient, curvature = smooth.derivatives(ahead)
        for _ in range(HALVINGS):
            step = length / curvature
            moved = shrink_rows(ahead - step * gradient, blocks, lam * step, nonnegative)
            value = float(smooth.value(moved) + lam * row_norms(moved, blocks))
            if value < lowest or pace > 1:
                break
            length /= 2
        if value < lowest:
            idle = idle + 1 if lowest - value <= max(tol, rounding) * abs(lowest) else 0
            before, pace = pace, (1 + (1 + 4 * pace**2) ** 0.5) / 2
            ahead = moved + (before - 1) / pace * (moved - best)
            best, lowest = moved, value
        elif pace > 1:
            ahead, pace = best, 1.0
        else:
            break
        if idle == patience:
            break
        smooth.value(ahead)
    return best
