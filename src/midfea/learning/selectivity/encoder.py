"""The encoder of the neuron-selectivity layer: W, b with sigmoid(W X + b 1^T) near H.

Each neuron is a problem of its own, and all are solved at once by Newton's method
(`midfea.learning.newton`): every change of W lies in the span of the samples, W + A X^T.

Squared error alone cannot be trusted from any start: where a neuron's target is zero for nearly all
samples its bias runs away, the sigmoid saturates and no gradient is left. The logistic loss of the
same targets is convex and cannot saturate; its solution is the start, and squared error goes on from
there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, ratio, special, to_numpy
from midfea.learning.folds import make_folds, splits
from midfea.learning.newton import (
    Accuracy,
    Loss,
    LossAt,
    Problem,
    Product,
    dot,
    gram,
    gram_product,
    matrix_product,
    newton,
)

# Largest distance of a neuron's mean pre-activations when silent and when firing: sharper answers tell
# a classifier less of new samples, much duller ones pull the codes of silent neurons up.
MAX_RANGE = 3.0
RIDGES = (1e-5, 1e-4, 1e-3)
MAX_CHOICE_SAMPLES = 4_000  # samples by which the ridge is chosen
MAX_PRODUCTS = 15  # conjugate gradient steps for a Newton step

# Logistic regressions of neurons, W = A X^T and b = A 1: A, and the scores Z = W X + b 1^T, both (d, N).
Regression = tuple[Array, Array]


class Memory:
    """What the encoder keeps from round to round: the Gram matrix and the last regression."""

    def __init__(self, X: Array) -> None:
        self.product = gram_product(X.T)
        self.last: Regression | None = None


def update_encoder(
    X: Array,
    H: Array,
    W: Array,
    b: Array,
    *,
    ridge: float = RIDGES[0],
    max_iter: int = 0,
    memory: Memory | None = None,
) -> tuple[Array, Array]:
    """W and b with a squared error |H - sigmoid(W X + b 1^T)|^2 no larger than before, per neuron.

    Neurons that `logistic_start` serves better than the present W, b begin anew from there. Then up to
    `max_iter` Gauss-Newton steps lower the squared error itself. `ridge` is relative to the samples'
    mean squared length. A `memory` kept from call to call saves most of the logistic regression's work.
    """
    xp, memory = namespace(X), memory or Memory(X)
    ridge *= float(dot(X, X).sum()) / X.shape[1] + 1
    A, shift, fresh = logistic_start(memory, H, ridge)
    Z = W @ X + b[:, None]
    squared_error = _squared_error(H)
    rows = xp.arange(len(H), device=X.device)
    better = squared_error(fresh, rows).values < squared_error(Z, rows).values
    Z[better] = fresh[better]
    A[~better] = 0
    W, b = xp.where(better[:, None], 0, W), xp.where(better, shift, b)
    if max_iter:
        problem = Problem(memory.product, squared_error, ridge=0.0)
        A += newton(problem, xp.zeros_like(Z), Z, Accuracy(1e-3, max_iter, MAX_PRODUCTS))[0]
    return W + A @ X.T, b + A.sum(axis=1)


def choose_ridge(X: Array, y: NDArray[np.intp]) -> float:
    """The one of RIDGES with which logistic regression is best in validation on X (p, N), y (N,).

    Many samples for each dimension, or clean ones, want hardly any; few noisy ones want much.
    """
    chosen = np.random.RandomState(0).permutation(len(y))[:MAX_CHOICE_SAMPLES]
    X, y = X[:, chosen], np.unique(y[chosen], return_inverse=True)[1]
    parts = splits(make_folds(y, 3, seed=0))
    if not parts or y.max() == 0:
        return RIDGES[0]
    matrix = gram(X.T)
    size = float(matrix.diagonal().mean())
    own = np.arange(y.max() + 1)[:, None] == y
    targets = namespace(X).asarray(own, dtype=X.dtype, device=X.device)
    n_correct = np.zeros(len(RIDGES), dtype=int)
    for train, test in parts:
        product = matrix_product(matrix[np.ix_(train, train)])
        across = matrix[np.ix_(train, test)]
        solution = None
        for i in np.argsort(RIDGES)[::-1]:  # from the easiest problem, each from the last one's solution
            solution = logistic_regression(product, targets[:, train], RIDGES[i] * size, solution)
            predicted = to_numpy((solution[0] @ across).argmax(axis=0))
            n_correct[i] += int((predicted == y[test]).sum())
    return RIDGES[int(n_correct.argmax())]


def _squared_error(H: Array) -> Loss:
    def loss(z: Array, rows: Array) -> LossAt:
        s = special(z).expit(z)
        error, derivative = s - H[rows], s * (1 - s)
        return LossAt(dot(error, error), 2 * error * derivative, 2 * derivative * derivative)

    return loss


def logistic_start(memory: Memory, H: Array, ridge: float) -> tuple[Array, Array, Array]:
    """An encoder W = A X^T, b = A 1 + shift from logistic regressions on whether neurons fire.

    Returned are A, the shift and the scores Z = W X + b 1^T.

    Then a gain and a shift for each neuron bring its answers to the level of H. How strongly each
    sample drives it is left out: an encoder asked for that, with more dimensions than samples, learns
    the samples by heart.
    """
    targets = firing(H)
    memory.last = logistic_regression(memory.product, targets, ridge, memory.last)
    A, Z = memory.last
    gain, shift = _calibration(Z, H.clip(0, 1), targets)
    return gain[:, None] * A, shift, gain[:, None] * Z + shift[:, None]


def firing(H: Array) -> Array:
    """0 where a neuron is silent, 1 where it fires, by its own usual level or 1 if that is less.

    The usual level is the mean of the positive codes, weighted by themselves. Up to a quarter of it
    is silence, from three quarters on it is firing.
    """
    positive = H.clip(0)
    total = positive.sum(axis=1, keepdims=True)
    squares = namespace(H).einsum("ij,ij->i", positive, positive)[:, None]
    level = ratio(squares, total)  # 0 for a neuron that never fires: its targets are 0, whatever it is
    return (2 * positive / level.clip(1e-6, 1) - 0.5).clip(0, 1)


def logistic_regression(
    product: Product,
    targets: Array,
    ridge: float,
    start: Regression | None = None,
    *,
    balance: float = 0.5,
    max_iter: int = 10,
    tol: float = 1e-2,
) -> Regression:
    """Logistic regressions of targets (d, N) from 0 to 1.

    Per neuron the value is the weighted mean over the samples of softplus(z) - t z, plus
    ridge / 2 |(w, b)|^2. The weights grow with the target from 1 to the `balance`-th power of the
    number of negatives for each positive: a ridge starves rare positives otherwise.
    """
    xp, n = namespace(targets), targets.shape[1]
    mean = targets.mean(axis=1, keepdims=True)
    negatives = ((1 - mean) / mean.clip(1 / n)).clip(1, n)  # for each positive
    weights = 1 + (negatives**balance - 1) * targets
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(z: Array, rows: Array) -> LossAt:
        t, w = targets[rows], weights[rows]
        tail = xp.exp(-abs(z))
        larger = 1 / (1 + tail)  # of sigmoid(z) and sigmoid(-z)
        s = xp.where(z > 0, larger, tail * larger)
        values = w * (z.clip(0) - xp.log(larger) - t * z)
        return LossAt(values.sum(axis=1, dtype=xp.float64), w * (s - t), w * s * (1 - s))

    start = start or (xp.zeros_like(targets), xp.zeros_like(targets))
    problem = Problem(product, loss, ridge)
    return newton(problem, *start, Accuracy(tol, max_iter, MAX_PRODUCTS))


def _calibration(Z: Array, H: Array, targets: Array, max_iter: int = 10) -> tuple[Array, Array]:
    """Gain (see MAX_RANGE) and shift with a small squared error |H - sigmoid(gain Z + shift)|^2.

    They start where the mean answers to silent and to firing samples are those of H; damped Newton
    steps in the two variables follow.
    """
    xp = namespace(Z)

    def mean(values: Array, of: Array) -> Array:
        return xp.einsum("ij,ij->i", values, of) / of.sum(axis=1).clip(1e-6)

    low, high = (special(Z).logit(mean(H, of).clip(1e-3, 0.99)) for of in (1 - targets, targets))
    below, above = mean(Z, 1 - targets), mean(Z, targets)
    apart = (above - below).clip(1e-3)
    largest = MAX_RANGE / apart
    gain = ((high - low) / apart).clip(1e-3).clip(max=largest)
    shift = xp.where(targets.any(axis=1), high - gain * above, low)
    squared_error, rows = _squared_error(H), xp.arange(len(Z), device=Z.device)
    damping = xp.full_like(gain, 1e-2)

    def error(gain: Array, shift: Array) -> LossAt:
        return squared_error(gain[:, None] * Z + shift[:, None], rows)

    at = error(gain, shift)
    for _ in range(max_iter):
        by_gain, by_shift = dot(at.gradient, Z), at.gradient.sum(axis=1)
        weighted = at.curvature * Z
        a, c, e = dot(weighted, Z), weighted.sum(axis=1), at.curvature.sum(axis=1)
        a, e = a * (1 + damping) + 1e-9, e * (1 + damping) + 1e-9
        determinant = a * e - c * c
        new_gain = gain - xp.asarray((e * by_gain - c * by_shift) / determinant, dtype=Z.dtype)
        new_shift = shift - xp.asarray((a * by_shift - c * by_gain) / determinant, dtype=Z.dtype)
        new_gain = new_gain.clip(1e-3).clip(max=largest)
        reached = error(new_gain, new_shift)
        better = reached.values < at.values
        gain, shift = xp.where(better, new_gain, gain), xp.where(better, new_shift, shift)
        damping = xp.where(better, damping / 3, damping * 4)
        at = LossAt(
            xp.where(better, reached.values, at.values),
            xp.where(better[:, None], reached.gradient, at.gradient),
            xp.where(better[:, None], reached.curvature, at.curvature),
        )
    return gain, shift
