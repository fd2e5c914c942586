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

from midfea.arrays import Array, namespace, ratio, special, to_numpy
from midfea.learning.folds import make_folds, split

Product = Callable[[Array], Array]
# Pre-activations z and rows of neurons -> values (per neuron), derivative and curvature (per value).
Loss = Callable[[Array, Array], tuple[Array, Array, Array]]

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
    return special(X).expit(activations, out=activations)


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
    xp = namespace(X)
    ridge *= float(_dot(X, X).sum()) / X.shape[1] + 1
    A, shift, fresh = logistic_start(product, H, ridge, {} if memory is None else memory)
    Z = W @ X + b[:, None]
    squared_error = _squared_error(H)
    everyone = xp.arange(len(H), device=X.device)
    better = squared_error(fresh, everyone)[0] < squared_error(Z, everyone)[0]
    Z[better] = fresh[better]
    A[~better] = 0
    W, b = xp.where(better[:, None], 0, W), xp.where(better, shift, b)
    if max_iter:
        more, _ = newton(product, squared_error, xp.zeros_like(Z), Z, 0.0, max_iter=max_iter)
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
    folds = make_folds(y, 3, seed)
    parts = [split(folds, fold) for fold in np.unique(folds) if fold >= 0]
    if not parts or y.max() == 0:
        return ridges[0]
    gram = X.T @ X + 1
    size = float(gram.diagonal().mean())
    own = np.arange(y.max() + 1)[:, None] == y
    targets = namespace(X).asarray(own, dtype=X.dtype, device=X.device)
    right = np.zeros(len(ridges), dtype=int)
    for train, test in parts:
        product = gram[np.ix_(train, train)].__rmatmul__
        across = gram[np.ix_(train, test)]
        solution = None
        for i in np.argsort(ridges)[::-1]:  # from the easiest problem, each from the last one's solution
            solution = logistic_regression(product, targets[:, train], ridges[i] * size, solution)
            answers = to_numpy((solution[0] @ across).argmax(axis=0))
            right[i] += int((answers == y[test]).sum())
    return ridges[int(right.argmax())]


def _squared_error(H: Array) -> Loss:
    def loss(z: Array, rows: Array) -> tuple[Array, Array, Array]:
        s = special(z).expit(z)
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
    xp, n = namespace(targets), targets.shape[1]
    mean = targets.mean(axis=1, keepdims=True)
    negatives = ((1 - mean) / mean.clip(1 / n)).clip(1, n)  # for each positive
    weights = 1 + (negatives**balance - 1) * targets
    weights /= weights.sum(axis=1, keepdims=True)

    def loss(z: Array, rows: Array) -> tuple[Array, Array, Array]:
        t, w = targets[rows], weights[rows]
        tail = xp.exp(-abs(z))
        larger = 1 / (1 + tail)  # of sigmoid(z) and sigmoid(-z)
        s = xp.where(z > 0, larger, tail * larger)
        values = w * (z.clip(0) - xp.log(larger) - t * z)
        return values.sum(axis=1, dtype=xp.float64), w * (s - t), w * s * (1 - s)

    A, Z = start or (xp.zeros_like(targets), xp.zeros_like(targets))
    return newton(product, loss, A, Z, ridge, max_iter=max_iter, tol=tol)


def _calibration(Z: Array, H: Array, targets: Array, max_iter: int = 10) -> tuple[Array, Array]:
    """Gain (see RANGE) and shift with a small squared error |H - sigmoid(gain Z + shift)|^2.

    They start where the mean answers to silent and to firing samples are right.
    """
    xp = namespace(Z)

    def mean(values: Array, of: Array) -> Array:
        return xp.einsum("ij,ij->i", values, of) / of.sum(axis=1).clip(1e-6)

    low, high = (special(Z).logit(mean(H, of).clip(1e-3, 0.99)) for of in (1 - targets, targets))
    below, above = mean(Z, 1 - targets), mean(Z, targets)
    apart = (above - below).clip(1e-3)
    largest = RANGE / apart
    gain = ((high - low) / apart).clip(1e-3).clip(max=largest)
    shift = xp.where(targets.any(axis=1), high - gain * above, low)
    squared_error = _squared_error(H)
    everyone = xp.arange(len(Z), device=Z.device)
    damping = xp.full_like(gain, 1e-2)

    def answers(gain: Array, shift: Array) -> Any:
        return squared_error(gain[:, None] * Z + shift[:, None], everyone)

    value, slope, curvature = answers(gain, shift)
    for _ in range(max_iter):
        by_gain, by_shift = _dot(slope, Z), slope.sum(axis=1)
        bent = curvature * Z
        a, c, e = _dot(bent, Z), bent.sum(axis=1), curvature.sum(axis=1)
        a, e = a * (1 + damping) + 1e-9, e * (1 + damping) + 1e-9
        determinant = a * e - c * c
        new_gain = gain - xp.asarray((e * by_gain - c * by_shift) / determinant, dtype=Z.dtype)
        new_shift = shift - xp.asarray((a * by_shift - c * by_gain) / determinant, dtype=Z.dtype)
        new_gain = new_gain.clip(1e-3).clip(max=largest)
        reached = answers(new_gain, new_shift)
        good = reached[0] < value
        gain, shift = xp.where(good, new_gain, gain), xp.where(good, new_shift, shift)
        damping = xp.where(good, damping / 3, damping * 4)
        value = xp.where(good, reached[0], value)
        slope = xp.where(good[:, None], reached[1], slope)
        curvature = xp.where(good[:, None], reached[2], curvature)
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
    xp = namespace(A)
    A, Z = xp.asarray(A, copy=True), xp.asarray(Z, copy=True)
    rows = xp.arange(len(A), device=A.device)
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


def _dot(a: Array, b: Array) -> Array:
    """Inner products of rows, float64."""
    xp = namespace(a)
    return xp.asarray(xp.einsum("ij,ij->i", a, b), dtype=xp.float64)


def _conjugate_gradients(
    product: Product,
    curvature: Array,
    residual: Array,
    margins: Array,
    ridge: float,
    max_iter: int,
) -> tuple[Array, Array]:
    """Newton's step, one tenth accurate: (ridge I + X C X^T) s = minus the gradient."""
    step = step_margins = namespace(residual).zeros_like(residual)
    direction, direction_margins = residual, margins
    squared = _dot(residual, margins)
    enough = 0.01 * squared
    for _ in range(max_iter):
        curved = ridge * direction + curvature * direction_margins
        curved_margins = product(curved)
        bend = _dot(direction, curved_margins)
        size = _column(ratio(squared, bend), residual.dtype)
        step = step + size * direction
        step_margins = step_margins + size * direction_margins
        residual = residual - size * curved
        margins = margins - size * curved_margins
        previous, squared = squared, _dot(residual, margins).clip(0)
        going = squared > enough
        if not going.any():
            break
        turn = _column(ratio(squared, previous), residual.dtype)
        direction = (residual + turn * direction) * going[:, None]
        direction_margins = (margins + turn * direction_margins) * going[:, None]
        squared = squared * going
    return step, step_margins


def _column(values: Array, dtype: Any) -> Array:
    """A factor for each row."""
    return namespace(values).asarray(values, dtype=dtype)[:, None]


def _shorten(
    loss: Loss,
    A: Array,
    Z: Array,
    rows: Array,
    step: Array,
    step_margins: Array,
    ridge: float,
    before: Array,
) -> Array:
    """For each neuron the longest of 1, 1/2, 1/4, ... that does not raise its value, or 0."""
    xp = namespace(A)
    length = xp.ones((len(rows), 1), dtype=A.dtype, device=A.device)
    worse = xp.arange(len(rows), device=A.device)
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
