"""Newton's method with conjugate gradients for many linear models of the same samples at once.

Each row of A (k, n) is a problem of its own: a linear model with weights w = a X, a combination of the
n samples X (n, p), and the intercept as one more weight. Its scores of the samples are the row of
Z = A (X X^T + 1), and it minimises

    loss(z) + ridge / 2 |w|^2,      |w|^2 = a . z

So a step costs one product with the samples' Gram matrix, whatever their dimension. The caller gives
the loss (convex, or with a positive curvature in place of the true one). numpy and torch arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from midfea.arrays import Array, contiguous, namespace, ratio

Product = Callable[[Array], Array]  # A -> A (X X^T + 1)

MAX_GRAM_SAMPLES = 12_000  # their Gram matrix takes 576 MB in float32
MAX_HALVINGS = 20


class LossAt(NamedTuple):
    """The loss of some rows of scores (m, n)."""

    values: Array  # (m,), float64
    gradient: Array  # (m, n), by the scores
    curvature: Array  # (m, n), the second derivative or a positive bound of it


Loss = Callable[[Array, Array], LossAt]  # scores (m, n) and the numbers of their rows


@dataclass(frozen=True)
class Problem:
    """What is minimised, for every row."""

    product: Product
    loss: Loss
    ridge: float

    def at(self, A: Array, Z: Array, rows: Array) -> LossAt:
        """The loss and its derivatives by the scores; the values include the ridge."""
        at = self.loss(Z, rows)
        squared_weights = (A * Z).sum(axis=1, dtype=namespace(A).float64)
        return at._replace(values=at.values + self.ridge / 2 * squared_weights)


@dataclass(frozen=True)
class Accuracy:
    """When a row is solved.

    tol : largest length of its gradient, relative to that of its first gradient, or to that of its
        weights if `of_weights` (which makes sense for a ridge of 1)
    max_iter : Newton steps at most
    max_products : conjugate gradient steps, one product each, at most for a Newton step
    """

    tol: float
    max_iter: int
    max_products: int
    of_weights: bool = False


def has_small_gram(X: Array) -> bool:
    """Whether products with the Gram matrix of samples (n, p) cost less than with the samples."""
    n, p = X.shape
    return bool(n <= MAX_GRAM_SAMPLES and n < 2 * p)


def gram(X: Array) -> Array:
    """X X^T + 1 of samples X (n, p); the ones are the intercept's."""
    matrix = X @ X.T
    matrix += 1
    return matrix


def gram_product(X: Array) -> Product:
    """A -> A (X X^T + 1): the scores of the samples X (n, p) by combinations A of them."""
    if has_small_gram(X):
        return matrix_product(gram(X))
    return lambda A: (A @ X) @ X.T + A.sum(axis=1, keepdims=True)


def matrix_product(matrix: Array) -> Product:
    """A -> A times a symmetric matrix, from the side that costs BLAS less on busy cores."""
    return lambda A: contiguous((matrix @ A.T).T)


def newton(problem: Problem, A: Array, Z: Array, accuracy: Accuracy) -> tuple[Array, Array]:
    """Better combinations A (k, n) and their scores Z. No row's value increases.

    Z may hold more than A (X X^T + 1), a constant or another model's scores, if the ridge is zero.
    """
    xp = namespace(A)
    A, Z = xp.asarray(A, copy=True), xp.asarray(Z, copy=True)
    rows = xp.arange(len(A), device=A.device)
    first = None
    for _ in range(accuracy.max_iter):
        a, z = A[rows], Z[rows]
        at = problem.at(a, z, rows)
        residual = -at.gradient - problem.ridge * a
        residual_scores = problem.product(residual)
        squared = dot(residual, residual_scores)
        if accuracy.of_weights:
            scale = dot(a, z)
        else:
            scale = first = squared if first is None else first
        going = squared > accuracy.tol**2 * scale
        if not going.any():
            break
        at = LossAt(*(part[going] for part in at))
        a, z, rows = a[going], z[going], rows[going]
        step, step_scores = _conjugate_gradients(
            problem, at.curvature, residual[going], residual_scores[going], accuracy.max_products
        )
        step_size = _line_search(problem, a, z, rows, step, step_scores, at.values)
        A[rows] += step_size * step
        Z[rows] += step_size * step_scores
        moved = step_size[:, 0] > 0  # the others are as good as rounding lets them be
        rows = rows[moved]
        first = None if first is None else first[going][moved]
    return A, Z


def _conjugate_gradients(
    problem: Problem, curvature: Array, residual: Array, residual_scores: Array, max_iter: int
) -> tuple[Array, Array]:
    """Newton's steps, one tenth accurate: (ridge I + X^T diag(curvature) X) s = -gradient."""
    step = step_scores = namespace(residual).zeros_like(residual)
    direction, direction_scores = residual, residual_scores
    squared = dot(residual, residual_scores)
    solved = 0.01 * squared
    for _ in range(max_iter):
        image = problem.ridge * direction + curvature * direction_scores
        image_scores = problem.product(image)
        size = _factors(ratio(squared, dot(direction, image_scores)), residual.dtype)
        step = step + size * direction
        step_scores = step_scores + size * direction_scores
        residual = residual - size * image
        residual_scores = residual_scores - size * image_scores
        previous, squared = squared, dot(residual, residual_scores).clip(0)
        going = squared > solved
        if not going.any():
            break
        turn = _factors(ratio(squared, previous), residual.dtype)
        direction = (residual + turn * direction) * going[:, None]
        direction_scores = (residual_scores + turn * direction_scores) * going[:, None]
        squared = squared * going
    return step, step_scores


def _line_search(
    problem: Problem, a: Array, z: Array, rows: Array, step: Array, step_scores: Array, before: Array
) -> Array:
    """For each row the largest of 1, 1/2, 1/4, ... that does not raise its value, or 0: a column."""
    xp = namespace(a)
    step_size = xp.ones((len(rows), 1), dtype=a.dtype, device=a.device)
    worse = xp.arange(len(rows), device=a.device)
    for _ in range(MAX_HALVINGS):
        size = step_size[worse]
        moved, moved_scores = a[worse] + size * step[worse], z[worse] + size * step_scores[worse]
        values = problem.at(moved, moved_scores, rows[worse]).values
        worse = worse[~(values <= before[worse])]
        if not len(worse):
            return step_size
        step_size[worse] /= 2
    step_size[worse] = 0
    return step_size


def dot(a: Array, b: Array) -> Array:
    """Inner products of rows, float64."""
    xp = namespace(a)
    return xp.asarray(xp.einsum("ij,ij->i", a, b), dtype=xp.float64)


def _factors(values: Array, dtype: Any) -> Array:
    """A factor for each row."""
    return namespace(values).asarray(values, dtype=dtype)[:, None]
