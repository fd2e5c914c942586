"""A linear SVM for few samples, many dimensions and many classes, all classes at once.

The problem is scikit-learn's `LinearSVC` with its defaults (squared hinge loss, one class against
the rest, the intercept as one more weight):

    minimise over w    |w|^2 / 2 + C sum_i max(0, 1 - y_i w.x_i)^2

It is solved by Newton's method with conjugate gradients in the span of the samples, w = X^T a: each
step is one product of the Gram matrix X X^T with a column per class. liblinear, behind `LinearSVC`,
takes the classes one after the other on one core and holds 24 bytes for each value of X; here 3,060
samples of 102 classes take seconds, and all folds and values of C share one Gram matrix. Conjugate
gradients are slow for a large C, where few samples count: there each class's Newton steps are solved by
factors of the part of the Gram matrix that belongs to those (`_by_factors`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from midfea.arrays import Array, namespace, ratio, to_numpy

Floats = NDArray[Any]  # float32 throughout
Put = Callable[[Floats], Array]  # where to compute: see `midfea.engines.arrays_on`
Product = Callable[[Array], Array]

GRAM_LIMIT = 12_000  # samples: their Gram matrix takes 576 MB
EASY = 1.0  # up to this C conjugate gradients are quick
FACTORED_LIMIT = 6_000  # samples that count for a class: factors take their cube
N_FACTORED = 12  # Newton steps; five are usual


def fit_linear_svm(
    features: Floats, y: NDArray[np.intp], C: float, put: Put = np.asarray
) -> tuple[Floats, Floats]:
    """Weights (p, k) and intercepts (k,), k = the number of classes, or one for two classes.

    `y` holds class numbers 0 .. n_classes - 1. Decision values of different devices agree to 1e-2, that
    is to the accuracy of the solution itself.
    """
    there, targets = put(features), put(class_signs(y))
    n, p = there.shape
    if n <= GRAM_LIMIT and n < 2 * p:
        alpha = solve_gram(gram(there), targets, C)
    else:
        alpha = solve(gram_product(there), targets, C)
    return to_numpy(there.T @ alpha), to_numpy(alpha.sum(axis=0))


def class_signs(y: NDArray[np.intp]) -> Floats:
    """+1 for a sample's own class, -1 for the others; one column is enough for two classes."""
    n_classes = int(y.max()) + 1
    signs = 2 * (y[:, None] == np.arange(n_classes)) - 1
    return (signs[:, 1:] if n_classes == 2 else signs).astype(np.float32)


def gram(features: Array) -> Array:
    """X X^T + 1; the ones are the intercept's."""
    return features @ features.T + 1


def gram_product(features: Array) -> Product:
    """z -> (X X^T + 1) z"""
    n, p = features.shape
    if n <= GRAM_LIMIT and n < 2 * p:
        return gram(features).__matmul__
    return lambda z: features @ (features.T @ z) + z.sum(axis=0)


def solve_gram(matrix: Array, targets: Array, C: float, start: Array | None = None) -> Array:
    """`solve` for a Gram matrix at hand; `start` is a solution for a smaller C, if there is one."""
    product = matrix.__matmul__
    if C > EASY and isinstance(matrix, np.ndarray):
        start = solve(product, targets, EASY, tol=0.1) if start is None else start
        start = _by_factors(matrix, targets, C, start)
    return solve(product, targets, C, start=start)


def _by_factors(matrix: Floats, targets: Floats, C: float, alpha: Floats) -> Floats:
    """Newton steps for each class by Cholesky factors, until the same samples count as before.

    A start for `solve`, which finds nothing left to do, or mends what rounding or a step too long did.
    """
    for _ in range(N_FACTORED):
        active = targets * (matrix @ alpha) < 1
        if active.sum(axis=0).max() > FACTORED_LIMIT:
            break
        found = np.zeros_like(alpha)
        for k in range(targets.shape[1]):
            own = np.flatnonzero(active[:, k])
            part = matrix[np.ix_(own, own)]
            part[np.diag_indices(len(own))] += 1 / (2 * C)
            try:
                factor = cho_factor(part, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                found[:, k] = alpha[:, k]
                continue
            found[own, k] = cho_solve(factor, targets[own, k], check_finite=False)
        alpha, before = found, alpha
        if np.abs(alpha - before).max() <= 1e-2 * np.abs(alpha).max():  # samples on the margin go on
            break
    return alpha


def solve(
    product: Product, targets: Array, C: float, tol: float = 1e-3, start: Array | None = None
) -> Array:
    """Coefficients a (n, k) of the weights w = X^T a, every class's to its own accuracy.

    `tol` bounds the gradient's length relative to the length of w.
    """
    if start is None:
        alpha, margins = 0 * targets, 0 * targets
    else:
        alpha = 1 * start
        margins = product(alpha)
    loss = 2 * float(C)
    for _ in range(50):
        slack = 1 - targets * margins
        active = slack > 0
        residual = loss * targets * slack * active - alpha  # minus the gradient
        residual_margins = product(residual)
        squared = _dot(residual, residual_margins)
        going = squared > tol**2 * _dot(alpha, margins)
        if not going.any():
            break
        step, step_margins = _conjugate_gradients(
            product, active, residual, residual_margins, loss, going
        )
        length = _line_search(alpha, margins, step, step_margins, targets, C)
        alpha += length * step
        margins += length * step_margins
    return alpha


def _dot(a: Array, b: Array) -> Array:
    return namespace(a).einsum("ij,ij->j", a, b)


def _conjugate_gradients(
    product: Product,
    active: Array,
    residual: Array,
    residual_margins: Array,
    loss: float,
    going: Array,
) -> tuple[Array, Array]:
    """The Newton step: (I + loss X^T A X) s = -gradient, one tenth accurate, for all classes."""
    residual, residual_margins = residual * going, residual_margins * going
    step = step_margins = namespace(residual).zeros_like(residual)
    direction, direction_margins = residual, residual_margins
    squared = _dot(residual, residual_margins)
    enough = 0.01 * squared
    for _ in range(100):
        bent = loss * direction_margins * active
        curved, curved_margins = direction + bent, direction_margins + product(bent)
        curvature = _dot(direction, curved_margins)
        size = ratio(squared, curvature)
        step = step + size * direction
        step_margins = step_margins + size * direction_margins
        residual = residual - size * curved
        residual_margins = residual_margins - size * curved_margins
        previous, squared = squared, _dot(residual, residual_margins).clip(0)
        going = squared > enough
        if not going.any():
            break
        turn = ratio(squared, previous)
        direction = (residual + turn * direction) * going
        direction_margins = (residual_margins + turn * direction_margins) * going
        squared = squared * going
    return step, step_margins


def _line_search(
    alpha: Array, margins: Array, step: Array, step_margins: Array, targets: Array, C: float
) -> Array:
    """For each class the longest of 1, 1/2, 1/4, ... that does not raise the objective."""

    xp = namespace(targets)

    def objective(length: Array) -> Array:
        slack = (1 - targets * (margins + length * step_margins)).clip(0)
        weights = (alpha + length * step) * (margins + length * step_margins)
        errors = (slack * slack).sum(axis=0, dtype=xp.float64)
        return weights.sum(axis=0, dtype=xp.float64) / 2 + C * errors

    length = xp.ones(targets.shape[1], dtype=targets.dtype, device=targets.device)
    before = objective(0 * length)
    for _ in range(20):
        worse = objective(length) > before
        if not worse.any():
            break
        length[worse] /= 2
    return length
