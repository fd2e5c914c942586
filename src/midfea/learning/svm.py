"""A linear SVM for few samples, many dimensions and many classes, all classes at once.

The problem is scikit-learn's `LinearSVC` with its defaults (squared hinge loss, one class against
the rest, the intercept as one more weight):

    minimise over w    |w|^2 / 2 + sum_i C_i max(0, 1 - y_i w.x_i)^2

It is solved by Newton's method in the span of the samples, w = X^T a (`midfea.learning.newton`).
liblinear, behind `LinearSVC`, takes the classes one after the other on one core and holds 24 bytes for
each value of X; here 3,060 samples of 102 classes take seconds, and all folds and values of C share one
Gram matrix. Conjugate gradients are slow for a large C, where few samples count: there each class's
Newton steps are solved by factors of the part of the Gram matrix that belongs to those
(`_solve_by_factors`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from midfea.arrays import Array, contiguous, namespace, to_numpy
from midfea.learning.newton import (
    Accuracy,
    LossAt,
    Problem,
    Product,
    gram,
    gram_product,
    has_small_gram,
    matrix_product,
    newton,
)

Floats = NDArray[Any]  # float32 throughout
Penalty = float | Array  # of the errors: of all samples, or of each
Put = Callable[[Floats], Array]  # where to compute: see `midfea.engines.Engine.arrays`

MAX_EASY_C = 1.0  # up to this C conjugate gradients are quick
MAX_FACTORED_SAMPLES = 6_000  # samples that count for a class: factors take their cube
MAX_FACTORED_STEPS = 12  # five are usual


def fit_linear_svm(
    features: Floats, y: NDArray[np.intp], C: Penalty, put: Put = np.asarray
) -> tuple[Floats, Floats]:
    """Weights (p, k) and intercepts (k,), k = the number of classes, or one for two classes.

    `y` holds class numbers 0 .. n_classes - 1; `C` is the penalty of errors, or that of each sample.
    Decision values of different devices agree to 1e-2, that is to the accuracy of the solution itself.
    """
    there, targets = put(features), put(class_signs(y))
    C = C if isinstance(C, float | int) else put(C)
    if has_small_gram(there):
        alpha = solve_gram(gram(there), targets, C)
    else:
        alpha = solve(gram_product(there), targets, C)
    return to_numpy(there.T @ alpha), to_numpy(alpha.sum(axis=0))


def class_signs(y: NDArray[np.intp]) -> Floats:
    """+1 for a sample's own class, -1 for the others; one column is enough for two classes."""
    n_classes = int(y.max()) + 1
    signs = 2 * (y[:, None] == np.arange(n_classes)) - 1
    return (signs[:, 1:] if n_classes == 2 else signs).astype(np.float32)


def solve_gram(matrix: Array, targets: Array, C: Penalty, start: Array | None = None) -> Array:
    """`solve` for a Gram matrix at hand; `start` is a solution for a smaller C, if there is one."""
    product = matrix_product(matrix)
    largest = float(np.max(C)) if isinstance(matrix, np.ndarray) else 0.0
    if largest > MAX_EASY_C:
        if start is None:
            start = solve(product, targets, C * np.float32(MAX_EASY_C / largest), tol=0.1)
        start = _solve_by_factors(matrix, targets, C, start)
    return solve(product, targets, C, start=start)


def solve(
    product: Product, targets: Array, C: Penalty, tol: float = 1e-3, start: Array | None = None
) -> Array:
    """Coefficients a (n, k) of the weights w = X^T a, every class's to its own accuracy.

    product : `newton.gram_product(X)`
    targets : the signs (n, k) of `class_signs`
    C : penalty of errors, a number or (n,)
    tol : largest length of a class's gradient, relative to the length of its w
    """
    xp, signs = namespace(targets), contiguous(targets.T)

    def squared_hinge(scores: Array, rows: Array) -> LossAt:
        own = signs[rows]
        slack = (1 - own * scores).clip(0)
        values = (C * slack * slack).sum(axis=1, dtype=xp.float64)
        active = xp.asarray(slack > 0, dtype=slack.dtype)
        return LossAt(values, -2 * C * own * slack, 2 * C * active)

    if start is None:
        alpha = scores = 0 * signs
    else:
        alpha = contiguous(start.T)
        scores = product(alpha)
    problem = Problem(product, squared_hinge, ridge=1.0)
    accuracy = Accuracy(tol, max_iter=50, max_products=100, of_weights=True)
    return contiguous(newton(problem, alpha, scores, accuracy)[0].T)


def _solve_by_factors(matrix: Floats, targets: Floats, C: Penalty, alpha: Floats) -> Floats:
    """Newton steps for each class by Cholesky factors, until the same samples count as before.

    A start for `solve`, which has little left to do, or corrects the errors of rounding or of too
    large a step.
    """
    ridge = np.broadcast_to(np.float32(0.5) / C, len(targets))
    for _ in range(MAX_FACTORED_STEPS):
        active = targets * (matrix @ alpha) < 1
        if active.sum(axis=0).max() > MAX_FACTORED_SAMPLES:
            break
        solution = np.zeros_like(alpha)
        for k in range(targets.shape[1]):
            own = np.flatnonzero(active[:, k])
            part = matrix[np.ix_(own, own)]
            part[np.diag_indices(len(own))] += ridge[own]
            try:
                factor = cho_factor(part, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                solution[:, k] = alpha[:, k]
                continue
            solution[own, k] = cho_solve(factor, targets[own, k], check_finite=False)
        alpha, before = solution, alpha
        # Not to the last digit: samples on the margin may count in every second step for ever.
        if np.abs(alpha - before).max() <= 1e-2 * np.abs(alpha).max():
            break
    return alpha
