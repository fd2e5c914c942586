"""The code step of the neuron-selectivity layer: a better H for fixed D, W and b.

The row shrinkage of lam |H_c|_{2,1} is exact, after gradient steps on the other terms, which are smooth.
"""

from __future__ import annotations

from typing import Any

from midfea.arrays import Array, namespace, ratio
from midfea.learning.selectivity.objective import (
    Blocks,
    Layer,
    Weights,
    centred,
    encode,
    for_samples,
    inner,
    own_grams,
    row_norms,
    second_moment,
    separation,
    squares,
    symmetric_product,
    times_own,
)

STEP_SIZE = 0.7  # of the curvature's inverse: 1 is safe while one class moves alone, 1/2 when all do
MAX_HALVINGS = 10
MAX_SMALL_GAINS = 4  # steps in a row that gain less than the tolerance
MAX_ROUNDING_GAINS = 20  # the same without a tolerance: steps in a row that gain nothing but rounding


def update_H(
    X: Array,
    blocks: Blocks,
    layer: Layer,
    weights: Weights,
    *,
    by_class: bool = False,
    nonnegative: bool = False,
    max_iter: int = 45,
    tol: float = 1e-4,
) -> Array:
    """Better codes for fixed D, W, b by proximal gradient steps.

    All classes move in each of up to `max_iter` steps; or, `by_class`, one class's convex problem is
    solved after the other in up to `max_iter` steps each. Either stops where steps gain less than `tol`
    of the value. With `nonnegative`, H >= 0 becomes a constraint.
    """
    H, smooth = layer.H, smooth_terms(X, blocks, layer, weights)
    options: dict[str, Any] = {"nonnegative": nonnegative, "max_iter": max_iter, "tol": tol}
    if not by_class:
        return proximal_descent(H, blocks, smooth, weights.lam, **options)
    H = namespace(X).asarray(H, copy=True)
    moment = second_moment(H, blocks)
    for c in blocks:
        own = H[:, c]
        moment -= own @ own.T
        curvature = smooth.gram + 2 * weights.gamma * moment
        convex = OneClass(curvature, smooth.pull[:, c], smooth.fixed, weights.beta)
        H[:, c] = proximal_descent(own, [slice(0, own.shape[1])], convex, weights.lam, **options)
        moment += H[:, c] @ H[:, c].T
    return H


def smooth_terms(X: Array, blocks: Blocks, layer: Layer, weights: Weights) -> AllClasses:
    """All terms but the row norms, as a function of H."""
    D, S = layer.D, encode(X, layer.W, layer.b)
    pull = D.T @ X
    pull += weights.alpha * S
    gram = D.T @ D
    diagonal = namespace(X).arange(len(gram), device=X.device)
    gram[diagonal, diagonal] += weights.alpha
    fixed = squares(X) + weights.alpha * squares(S)
    return AllClasses(gram, pull, fixed, blocks, weights)


class AllClasses:
    """The smooth terms as a function of H: value, and derivatives from what the value left."""

    def __init__(self, gram: Array, pull: Array, fixed: Any, blocks: Blocks, weights: Weights) -> None:
        self.gram, self.pull, self.fixed = gram, pull, fixed
        self.blocks, self.weights = blocks, weights

    def value(self, H: Array) -> Any:
        _, beta, gamma, _ = self.weights
        self.moment = second_moment(H, self.blocks)
        self.centred = centred(H, self.blocks)
        self.grams = own_grams(H, self.blocks)
        value = self.fixed + inner(self.gram, self.moment) - 2 * inner(self.pull, H)
        value += beta * squares(self.centred)
        return value + gamma * separation(self.moment, self.grams)

    def derivatives(self, H: Array) -> tuple[Array, Array]:
        """Gradient and a bound of each row's curvature, at the H whose value was computed last."""
        _, beta, gamma, _ = self.weights
        curvature = self.gram + 2 * gamma * self.moment
        half = symmetric_product(curvature, H, self.blocks)
        half -= self.pull
        own = times_own(H, self.grams, self.blocks)
        own *= 2 * gamma
        half -= own
        self.centred *= beta
        half += self.centred
        half *= 2
        return half, _row_bound(curvature, beta)


class OneClass:
    """The same for one class, the others being fixed: a convex quadratic."""

    def __init__(self, curvature: Array, pull: Array, fixed: Any, beta: float) -> None:
        self.curvature, self.pull, self.fixed, self.beta = curvature, pull, fixed, beta
        self.bound = _row_bound(curvature, beta)

    def value(self, H: Array) -> Any:
        self.half = self.curvature @ H
        self.half += self.beta * (H - H.mean(axis=1, keepdims=True))
        return self.fixed + inner(H, self.half - 2 * self.pull)

    def derivatives(self, H: Array) -> tuple[Array, Array]:
        """The same as those of `AllClasses`."""
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
    norms = row_norms(H, blocks)
    return H * for_samples(ratio((norms - amount).clip(0), norms), blocks)


def proximal_descent(
    H: Array,
    blocks: Blocks,
    smooth: AllClasses | OneClass,
    lam: float,
    *,
    nonnegative: bool,
    max_iter: int,
    tol: float,
) -> Array:
    """Accelerated proximal gradient steps (FISTA), each row's scaled by its curvature.

    Rows whose neurons fire in many classes are curved much more than others. A step starts `ahead`,
    where the last two point to; one that does not lower the value is made again without momentum, and
    then halved. Unlike Barzilai and Borwein's steps, which are as fast, these keep small differences
    small: every machine reaches the same objective.
    """
    xp = namespace(H)

    def value_at(H: Array) -> float:
        return float(smooth.value(H) + lam * row_norms(H, blocks).sum(dtype=xp.float64))

    smallest_gain = max(tol, 4 * float(xp.finfo(H.dtype).eps))
    patience = MAX_ROUNDING_GAINS if tol == 0 else MAX_SMALL_GAINS
    best = ahead = H
    lowest = value_at(H)
    step_size, momentum, n_small_gains = STEP_SIZE, 1.0, 0
    for _ in range(max_iter):
        gradient, curvature = smooth.derivatives(ahead)
        for _ in range(MAX_HALVINGS):
            step = step_size / curvature
            moved = shrink_rows(ahead - step * gradient, blocks, lam * step, nonnegative)
            value = value_at(moved)
            if value < lowest or momentum > 1:
                break
            step_size /= 2
        if value < lowest:
            n_small_gains = n_small_gains + 1 if lowest - value <= smallest_gain * abs(lowest) else 0
            before, momentum = momentum, (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = moved + (before - 1) / momentum * (moved - best)
            best, lowest = moved, value
        elif momentum > 1:
            ahead, momentum = best, 1.0
        else:
            break
        if n_small_gains == patience:
            break
        smooth.value(ahead)
    return best
