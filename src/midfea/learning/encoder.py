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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from midfea.learning.linear_svm import folds

Array = NDArray[Any]
Product = Callable[[Array], Array]
# Pre-activations z and rows of neurons -> values (per neuron), derivative and curvature (per value).
Loss = Callable[[Array, NDArray[np.intp]], tuple[NDArray[np.float64], Array, Array]]

# How far apart a neuron's mean pre-activations when silent and when firing may be: answers sharper than
# this tell an SVM less of new samples, much duller ones pull the codes of silent neurons up.
RANGE = 3.0
RIDGES = (1e-5, 1e-4, 1e-3)
GRAM_LIMIT = 12_000  # samples: their Gram matrix takes 576 MB in float32
CHOICE_LIMIT = 4_000  # samples by which the ridge is chosen


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
    ridge: float = RIDGES[0],
    max_iter: int = 0,
    product: Product | None = None,
    memory: dict[str, tuple[Array, Array]] | None = None,
) -> tuple[Array, Array]:
    """W and b with a squared error |H - sigmoid(W X + b 1^T)|^2 no larger than before, per neuron.

    Neurons that `logistic_start` serves better than the present W, b begin anew from there. Then up to
    `max_iter` Gauss-Newton steps lower the squared error itself. `ridge` is relative to the samples'
    mean squared length. `product` is `gram_product(X)`, if it is at hand. A `memory` kept from call to
    call lets the logistic regression go on from its last solution, which saves most of its work.
    """
    product = product or gram_product(X)
    ridge *= float(np.einsum("ij,ij->", X, X, dtype=np.float64)) / X.shape[1] + 1
    A, shift, fresh = logistic_start(product, H, ridge, {} if memory is None else memory)
    Z = W @ X + b[:, None]
    squared_error = _squared_error(H)
    everyone = np.arange(len(H))
    better = squared_error(fresh, everyone)[0] < squared_error(Z, everyone)[0]
    Z[better] = fresh[better]
    A[~better] = 0
    W, b = np.where(better[:, None], 0, W), np.where(better, shift, b)
    if max_iter:
        more, _ = newton(product, squared_error, np.zeros_like(Z), Z, 0.0, max_iter=max_iter)
        A += more
    return W + A @ X.T, b + A.sum(axis=1)


def choose_ridge(
    X: Array, y: NDArray[np.intp], ridges: Sequence[float] = RIDGES, seed: int = 0
) -> float:
    """The ridge with which logistic regression best tells the classes of samples held out.

    Features of many samples for each dimension, or nearly noise-free ones (faces), want hardly any;
    30 samples of each of 102 classes in 1000 dimensions want a hundred times as much.
    """
    kept = np.random.RandomState(seed).permutation(len(y))[:CHOICE_LIMIT]
    X, y = X[:, kept], np.unique(y[kept], return_inverse=True)[1]
    parts = folds(y, 3, seed)
    if not parts or y.max() == 0:
        return ridges[0]
    gram = X.T @ X + X.dtype.type(1)
    size = float(np.diagonal(gram).mean())
    targets = (np.arange(y.max() + 1)[:, None] == y).astype(X.dtype)
    right = np.zeros(len(ridges), dtype=int)
    for train, test in parts:
        product = gram[np.ix_(train, train)].__rmatmul__
        across = gram[np.ix_(train, test)]
        solution = None
        for i in np.argsort(ridges)[::-1]:  # from the easiest problem, each from the last one's solution
            solution = logistic_regression(product, targets[:, train], ridges[i] * size, solution)
            right[i] += int(((solution[0] @ across).argmax(axis=0) == y[test]).sum())
    return ridges[int(right.argmax())]


def _squared_error(H: Array) -> Loss:
    def loss(z: Array, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], Array, Array]:
        s = expit(z)
        error, slope = s - H[rows], s * (1 - s)
        return _dot(error, error), 2 * error * slope, 2 * slope * slope

    return loss


def logistic_start(
    product: Product, H: Array, ridge: float, memory: dict[str, tuple[Array, Array]]
) -> tuple[Array, Array, Array]:
    """Coefficients A (d, N) and shifts o (d,) of W = A X^T, b = A 1 + o; and W X + b 1^T.

    Logistic regression on whether a neuron fires, then a gain and a shift for each neuron that bring
    its answers to the level of H. How strongly each sample drives it is left out: an encoder asked
    for that, with more dimensions than samples, learns the samples by heart.
    """
    targets = firing(H)
    A, Z = logistic_regression(product, targets, ridge, memory.get("last"))
    memory["last"] = A, Z
    gain, shift = _calibration(Z, np.clip(H, 0, 1), targets)
    return gain[:, None] * A, shift, gain[:, None] * Z + shift[:, None]


def firing(H: Array) -> Array:
    """0 where a neuron is silent, 1 where it fires, by its own usual level or 1 if that is less.

    The usual level is the mean of the positive codes, weighted by themselves. Up to a quarter of it
    is silence, from three quarters on it is firing.
    """
    positive = np.maximum(H, 0)
    total = positive.sum(axis=1, keepdims=True)
    squares = np.einsum("ij,ij->i", positive, positive)[:, None]
    level = np.divide(squares, total, out=np.ones_like(total), where=total > 0)
    return np.clip(2 * positive / np.clip(level, 1e-6, 1) - 0.5, 0, 1)


def logistic_regression(
    product: Product,
    targets: Array,
    ridge: float,
    start: tuple[Array, Array] | None = None,
    *,
    balance: float = 0.5,
    max_iter: int = 10,
    tol: float = 1e-2,
) -> tuple[Array, Array]:
    """Coefficients A (d, N) of W = A X^T, b = A 1, and W X + b 1^T, for targets from 0 to 1.

    Per neuron the value is the weighted mean over the samples of softplus(z) - t z, plus
    ridge / 2 |(w, b)|^2. The weights grow with the target from 1 to the `balance`-th power of the
    number of negatives for each positive: a ridge starves rare positives otherwise.
    """
    n = targets.shape[1]
    mean = targets.mean(axis=1, keepdims=True)
    ratio = np.clip((1 - mean) / np.maximum(mean, 1 / n), 1, n).astype(targets.dtype)
    weights = 1 + (ratio**balance - 1) * targets
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(z: Array, rows: NDArray[np.intp]) -> tuple[NDArray[np.float64], Array, Array]:
        t, w = targets[rows], weights[rows]
        tail = np.exp(-np.abs(z))
        larger = 1 / (1 + tail)  # of sigmoid(z) and sigmoid(-z)
        s = np.where(z > 0, larger, tail * larger)
        values = w * (np.maximum(z, 0) - np.log(larger) - t * z)
        return values.sum(axis=1, dtype=np.float64), w * (s - t), w * s * (1 - s)

    A, Z = start or (np.zeros_like(targets), np.zeros_like(targets))
    return newton(product, loss, A, Z, ridge, max_iter=max_iter, tol=tol)


def _calibration(Z: Array, H: Array, targets: Array, max_iter: int = 10) -> tuple[Array, Array]:
    """Gain (see RANGE) and shift with a small squared error |H - sigmoid(gain Z + shift)|^2.

    They start where the mean answers to silent and to firing samples are right.
    """
    one = np.ones((1, Z.shape[1]), dtype=Z.dtype)

    def mean(values: Array, of: Array) -> Array:
        return np.einsum("ij,ij->i", values, of) / np.maximum(of.sum(axis=1), 1e-6)

    low = logit(np.clip(mean(H, one - targets), 1e-3, 0.99))
    high = logit(np.clip(mean(H, targets), 1e-3, 0.99))
    below, above = mean(Z, one - targets), mean(Z, targets)
    apart = np.maximum(above - below, 1e-3)
    largest = (RANGE / apart).astype(Z.dtype)
    gain = np.clip((high - low) / apart, 1e-3, largest)
    shift = np.where(targets.any(axis=1), high - gain * above, low)
    squared_error = _squared_error(H)
    everyone = np.arange(len(Z))
    damping = np.full(len(Z), 1e-2, dtype=Z.dtype)

    def answers(gain: Array, shift: Array) -> Any:
        return squared_error(gain[:, None] * Z + shift[:, None], everyone)

    value, slope, curvature = answers(gain, shift)
    for _ in range(max_iter):
        by_gain, by_shift = _dot(slope, Z), slope.sum(axis=1)
        bent = curvature * Z
        a, c, e = _dot(bent, Z), bent.sum(axis=1), curvature.sum(axis=1)
        a, e = a * (1 + damping) + 1e-9, e * (1 + damping) + 1e-9
        determinant = a * e - c * c
        new_gain = gain - ((e * by_gain - c * by_shift) / determinant).astype(Z.dtype)
        new_shift = shift - ((a * by_shift - c * by_gain) / determinant).astype(Z.dtype)
        new_gain = np.clip(new_gain, 1e-3, largest)
        reached = answers(new_gain, new_shift)
        good = reached[0] < value
        gain, shift = np.where(good, new_gain, gain), np.where(good, new_shift, shift)
        damping = np.where(good, damping / 3, damping * 4)
        value = np.where(good, reached[0], value)
        slope = np.where(good[:, None], reached[1], slope)
        curvature = np.where(good[:, None], reached[2], curvature)
    return gain, shift


def newton(
    product: Product,
    loss: Loss,
    A: Array,
    Z: Array,
    ridge: float,
    *,
    max_iter: int = 20,
    max_cg: int = 15,
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
