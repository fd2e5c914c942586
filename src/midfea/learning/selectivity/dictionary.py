"""The dictionary step of the neuron-selectivity layer: a better D for fixed H.

The best unit column, the others being fixed, is its normalised residual. The paper's other way is the
analytic solution without the constraint, normalised afterwards.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from midfea.arrays import Array, namespace
from midfea.learning.selectivity.objective import Layer, inner, squares

Decoder = Literal["columns", "analytic"]

RELATIVE_RIDGE = 1e-6  # of the mean of H H^T's diagonal, where that matrix is singular
MAX_NEURONS_IN_TURN = 256  # up to so many, D is updated column by column


def update_D(
    X: Array,
    layer: Layer,
    *,
    in_turn: bool | None = None,
    max_iter: int = 10,
    tol: float = 1e-4,
) -> Array:
    """A better dictionary for fixed H.

    `in_turn`: each column in turn becomes the best one, the others being fixed. Else, and where there
    are many, all at once, each minimising a bound of the objective: H H^T is replaced by the diagonal of
    its rows' absolute sums, which is never smaller, so a step never raises the objective. Up to
    `max_iter` sweeps, fewer if one gains less than `tol` of the residual.
    """
    xp = namespace(X)
    D, H = xp.asarray(layer.D, copy=True), layer.H
    moment = H @ H.T
    cross = X @ H.T
    in_turn = len(H) <= MAX_NEURONS_IN_TURN if in_turn is None else in_turn
    bound = abs(moment).sum(axis=1)
    product = None if in_turn else D @ moment
    fit = np.inf
    for _ in range(max_iter):
        if in_turn:
            for j in xp.where(moment.diagonal() > 0)[0].tolist():
                near = xp.where(moment[j] != 0)[0]
                others = cross[:, j] - D[:, near] @ moment[near, j] + moment[j, j] * D[:, j]
                D[:, j] = _unit(others, D[:, j])
        else:
            D = _unit(cross - product + bound * D, D)
        product = D @ moment
        previous, fit = fit, inner(D, product - 2 * cross)
        if previous - fit <= tol * (fit + squares(X)):
            break
    return D


def analytic_D(X: Array, layer: Layer) -> Array:
    """X H^T (H H^T)^-1, then columns of unit length (appendix, "Updating D").

    A small ridge is added to H H^T where it is singular. Columns of neurons that never fire stay as they
    are. Normalising can raise the objective; the rounds shorten such a step.
    """
    xp, H = namespace(X), layer.H
    moment = H @ H.T
    diagonal = moment.diagonal()
    identity = xp.eye(len(H), dtype=H.dtype, device=H.device)
    eigenvalues = xp.linalg.eigvalsh(moment)
    if float(eigenvalues[0]) <= RELATIVE_RIDGE * float(eigenvalues[-1]):
        ridge = RELATIVE_RIDGE * float(diagonal.mean())
        moment = moment + max(ridge, float(xp.finfo(H.dtype).tiny)) * identity
    solution = xp.linalg.solve(moment, H @ X.T).T
    return _unit(xp.where(diagonal > 0, solution, 0), layer.D)


def _unit(columns: Array, otherwise: Array) -> Array:
    """The columns at unit length; those of length zero stay as they were."""
    xp = namespace(columns)
    lengths = xp.einsum("i...,i...->...", columns, columns) ** 0.5
    positive = lengths > 0
    return xp.where(positive, columns / xp.where(positive, lengths, 1), otherwise)
