"""The encoder of the neuron-selectivity layer: W, b with sigmoid(W X + b 1^T) near H.

Each neuron is a problem of its own, and all are solved at once by Newton's method with conjugate
gradients. Every change of W lies in the span of the samples, W + A X^T, so that a step costs one
product with the Gram matrix of the samples whatever their dimension.

Squared error alone cannot be trusted from any start: where a neuron's target is zero for nearly all
samples its bias runs away, the sigmoid saturates and no gradient is left. The logistic loss of the
same targets is convex and cannot saturate; its solution is the start, and squared error goes on from
there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[Any]
Product = Callable[[Array], Array]
# Pre-activations z and rows of neurons -> values (per neuron), derivative and curvature (per value).
Loss = Callable[[Array, NDArray[np.intp]], tuple[NDArray[np.float64], Array, Array]]

GRAM_LIMIT = 12_000  # samples: their Gram matrix takes 576 MB in float32


def encode(X: Array, W: Array, b: Array) -> Array:
    """sigmoid(W X + b 1^T), the activations (d, N) of samples X (p, N)."""
    activations = W @ X
    activations += b[:, None]
    return np.asarray(expit(activations, out=activations))


def gram_product(X: Array) -> Product:
    """A -> A (X^T X + 1 1^T), what coefficients A change in W X + b 1^T; the ones are the bias's."""
    p, n = X.shape
    if n <= GRAM_LIMIT and n < 2 * p:
        gram = X.T @ X
        gram += 1
        return lambda A: A @ gram
    return lambda A: (A @ X.T) @ X + A.sum(axis=1, keepdims=True)


def update_encoder(
    X: Array,
    H: Array,
    W: Array,
    b: Array,
    *,
    ridge: float = 1e-6,
    balance: float = 1.0,
    max_iter: int = 0,
    product: Product | None = None,
) -> tuple[Array, Array]:
    """W and b with a squared error |H - sigmoid(W X + b 1^T)|^2 no larger than before, per neuron.

    Neurons that `logistic_start` serves better than the present W, b begin anew from there. Then up to
    `max_iter` Gauss-Newton steps lower the squared error itself.
    """
    product = product or gram_product(X)
    Z = W @ X + b[:, None]
    A, fresh = logistic_start(product, H, ridge, balance=balance)
    squared_error = _squared_error(H)
    everyone = np.arange(len(H))
    better = squared_error(fresh, everyone)[0] < squared_error(Z, everyone)[0]
    Z = np.where(better[:, None], fresh, Z)
    base = np.where(better[:, None], 0, W), np.where(better, 0, b)
    A *= better[:, None]
    if max_iter:
        more, Z = newton(product, squared_error, np.zeros_like(Z), Z, 0.0, max_iter=max_iter)
        A += more
    return base[0] + A @ X.T, base[1] + A.sum(axis=1)


def _squared_error(H: Array) -> Loss:
    def loss(z: Array, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], Array, Array]:
        s = expit(z)
        error, slope = s - H[rows], s * (1 - s)
        values = np.einsum("ij,ij->i", error, error).astype(np.float64)
        return values, 2 * error * slope, 2 * slope * slope

    return loss


def logistic_start(
    product: Product, H: Array, ridge: float, *, balance: float = 1.0, max_iter: int = 20
) -> tuple[Array, Array]:
    """Coefficients A (d, N) of W = A X^T, b = A 1 by ridge logistic regression, and W X + b 1^T.

    Per neuron the loss is the mean over the samples of

        weight * (softplus(z) - t z) + ridge * mean(diag(X^T X) + 1) * |(w, b)|^2 / 2

    with t = H clipped to 0 .. 1 and weights that grow from 1 at t = 0 to the `balance`-th power of
    the ratio of negatives to positives at t = 1: a ridge starves rare positives otherwise.
    """
    targets = np.clip(H, 0, 1)
    n = H.shape[1]
    peaks = targets.max(axis=1, keepdims=True)
    share = np.divide(targets, peaks, out=np.zeros_like(targets), where=peaks > 0)
    mean = share.mean(axis=1, keepdims=True)
    ratio = np.clip((1 - mean) / np.maximum(mean, 1 / n), 1, n).astype(H.dtype) ** balance
    weights = 1 + (ratio - 1) * share
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(z: Array, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], Array, Array]:
        t, w = targets[rows], weights[rows]
        s = expit(z)
        values = w * (np.logaddexp(0, z) - t * z)
        return values.sum(axis=1, dtype=np.float64), w * (s - t), w * s * (1 - s)

    start = np.zeros_like(H)
    return newton(product, loss, start, np.zeros_like(H), ridge, max_iter=max_iter)


def newton(
    product: Product,
    loss: Loss,
    A: Array,
    Z: Array,
    ridge: float,
    *,
    max_iter: int = 20,
    max_cg: int = 30,
    tol: float = 1e-3,
) -> tuple[Array, Array]:
    """Minimise loss(Z) + ridge |w|^2 / 2 for every neuron; Z changes with A as `product` says.

    A neuron's value never increases. It rests when its gradient has shrunk to `tol` of its first one.
    """
    A, Z = A.copy(), Z.copy()
    rows = np.arange(len(A))
    first = None
    for _ in range(max_iter):
        values, slope, curvature = loss(Z[rows], rows)
        values += ridge / 2 * _dot(A[rows], Z[rows])
        residual = -slope - ridge * A[rows]
        margins = product(residual)
        squared = _dot(residual, margins)
        if first is None:
            first = squared
        going = squared > tol**2 * first
        if not going.any():
            break
        rows, first = rows[going], first[going]
        step, step_margins = _conjugate_gradients(
            product, curvature[going], residual[going], margins[going], ridge, max_cg
        )
        taken = _shorten(loss, A, Z, rows, step, step_margins, ridge, values[going])
        A[rows] += taken * step
        Z[rows] += taken * step_margins
    return A, Z


def _dot(a: Array, b: Array) -> NDArray[np.float64]:
    return np.einsum("ij,ij->i", a, b).astype(np.float64)


def _conjugate_gradients(
    product: Product,
    curvature: Array,
    residual: Array,
    margins: Array,
    ridge: float,
    max_iter: int,
) -> tuple[Array, Array]:
    """Newton's step, one tenth accurate: (ridge I + X C X^T) s = minus the gradient."""
    step, step_margins = np.zeros_like(residual), np.zeros_like(residual)
    direction, direction_margins = residual, margins
    squared = _dot(residual, margins)
    enough = 0.01 * squared
    for _ in range(max_iter):
        curved = ridge * direction + curvature * direction_margins
        curved_margins = product(curved)
        bend = _dot(direction, curved_margins)
        size = _ratio(squared, bend, residual.dtype)
        step = step + size * direction
        step_margins = step_margins + size * direction_margins
        residual = residual - size * curved
        margins = margins - size * curved_margins
        previous, squared = squared, np.maximum(_dot(residual, margins), 0)
        going = squared > enough
        if not going.any():
            break
        turn = _ratio(squared, previous, residual.dtype)
        direction = (residual + turn * direction) * going[:, None]
        direction_margins = (margins + turn * direction_margins) * going[:, None]
        squared = squared * going
    return step, step_margins


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64], dtype: Any) -> Array:
    """a / b as a column, 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0).astype(dtype)[:, None]


def _shorten(
    loss: Loss,
    A: Array,
    Z: Array,
    rows: NDArray[np.intp],
    step: Array,
    step_margins: Array,
    ridge: float,
    before: NDArray[np.float64],
) -> Array:
    """For each neuron the longest of 1, 1/2, 1/4, ... that does not raise its value, or 0."""
    length = np.ones((len(rows), 1), dtype=A.dtype)
    worse = np.arange(len(rows))
    for _ in range(20):
        some = rows[worse]
        a = A[some] + length[worse] * step[worse]
        z = Z[some] + length[worse] * step_margins[worse]
        values = loss(z, some)[0] + ridge / 2 * _dot(a, z)
        worse = worse[~(values <= before[worse])]
        if not len(worse):
            return length
        length[worse] /= 2
    length[worse] = 0
    return length
