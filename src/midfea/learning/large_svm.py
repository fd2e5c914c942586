"""The linear SVMs of `midfea.learning.svm` for samples that do not fit into memory.

The same problems, solved by Newton's method in the space of the weights. Gradients, and products with
the curvature, are sums over the samples, which are read block by block for each of them: so few of them
must do. All classes share each reading. Newton's steps are found by conjugate gradients, which need few
products because they know about what the curvature is (`_ApproximateCurvature`): from those samples
that count at these weights, as many of them as memory can hold, and from the second moments of all.

Memory is bounded by a block, the samples that are kept, the weights, and the square of the number of
features, or their number where they are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from midfea.learning.folds import Indices
from midfea.learning.samples import Features, Samples, read
from midfea.progress import track

Floats = NDArray[np.float64]

MAX_SQUARED_FEATURES = 5000  # whose second moments are kept as a matrix: 200 MB in float64
MAX_BYTES_OF_WEIGHTS = 2**26  # that are found together; there are about ten more arrays of that size
MAX_BYTES_OF_KEPT = 2**28  # of samples that are kept in memory, and as many along the directions
MAX_BYTES_OF_FACTORS = 2**29  # of the curvature that these have, for all columns together
SHARE_OF_KEPT = 0.5  # of the curvature that is taken from them, if not all that count are kept
MAX_DECREASE_LEFT = 1e-7  # of a value, relative: decision values are then right to 1e-4 of their size
MAX_NEWTON_STEPS = 50
MAX_PRODUCTS = 30  # for one Newton step
GRADIENT_LEFT = 0.1  # by a Newton step, as a share
STEP_SIZES = 0.5 ** np.arange(1, 13)  # that are tried where a whole step is too large
ROUNDING = 1e-6  # of values: float32 products


@dataclass(frozen=True, eq=False)
class Moments:
    """The sum of count x x^T over samples, x with a one at its end.

    Attributes
    ----------
    sums : (p + 1,), along each direction
    directions : (p + 1, p + 1); None where there are too many features: then `sums` are the diagonal
    total : the sum of the counts
    """

    sums: Floats
    directions: Floats | None
    total: float

    def rotated(self, columns: Floats) -> Floats:
        """Columns (p + 1, q) along the directions."""
        return columns if self.directions is None else self.directions.T @ columns

    def rotated_back(self, columns: Floats) -> Floats:
        """The inverse of `rotated`."""
        return columns if self.directions is None else self.directions @ columns

    def rotated_rows(self, features: Features) -> Features:
        """Features (n, p) with a one at the end, along the directions, (n, p + 1)."""
        if self.directions is None:
            return np.hstack([features, np.ones((len(features), 1), np.float32)])
        single = self.directions.astype(np.float32)
        return features @ single[:-1] + single[-1]


_PLAIN = Moments(np.zeros(0), None, 0.0)  # nothing is rotated


def moments(samples: Samples, counts: Features, step: str) -> Moments:
    """Of samples (n, p), each counted so often."""
    p, total = samples.n_features, float(counts.sum(dtype=np.float64))
    whole = p <= MAX_SQUARED_FEATURES
    matrix = np.zeros((p + 1, p + 1) if whole else p + 1)
    for rows, features in read(samples, step):
        scaled = features * np.sqrt(counts[rows])[:, None]
        if whole:
            matrix[:-1, :-1] += scaled.T @ scaled
            matrix[-1, :-1] += counts[rows] @ features
        else:
            matrix[:-1] += np.square(scaled).sum(axis=0)
    if not whole:
        matrix[-1] = total
        return Moments(matrix, None, total)
    matrix[-1, -1] = total
    sums, directions = np.linalg.eigh(matrix)  # of the lower triangle
    return Moments(np.maximum(sums, 0), directions, total)


@dataclass(frozen=True, eq=False)
class LargeSVM:
    """Linear SVMs, each class against the rest; one for two classes.

    A column of weights (p + 1, q) is a class, its last row the intercepts.

    Attributes
    ----------
    samples, y : the samples, and their class numbers 0 .. n_classes - 1
    counts : (n,), how much each sample counts; 0: not trained on
    C : penalty of the errors
    moments : of the samples with these counts; those of slightly other counts only cost time
    seed : of which samples are kept
    step : what the progress is called
    usual_readings : how often the samples will be read, roughly
    """

    samples: Samples
    y: Indices
    n_classes: int
    counts: Features
    C: float
    moments: Moments
    seed: int = 0
    step: str = "classifier"
    usual_readings: int = 30

    def fit(self, start: Floats | None = None) -> Floats:
        """The weights, from a start."""
        labels = np.array([1]) if self.n_classes == 2 else np.arange(self.n_classes)
        shape = self.samples.n_features + 1, len(labels)
        weights = np.zeros(shape) if start is None else start.astype(np.float64)
        order = np.random.RandomState(self.seed).permutation(len(self.samples))
        n_at_once = max(1, MAX_BYTES_OF_WEIGHTS // (8 * len(weights)))
        starts = range(0, len(labels), n_at_once)
        with closing(track(repeat(None), self.step, len(starts) * self.usual_readings)) as readings:
            for first in starts:
                own = slice(first, first + n_at_once)
                problems = _Problems(self, labels[own], order, readings)
                weights[:, own] = problems.solve(weights[:, own])
        return weights


class _Kept:
    """Samples that count in one of the problems: all, or at random as many as may be kept."""

    def __init__(self, n_features: int, n_samples: int) -> None:
        n_rows = min(n_samples, max(1, MAX_BYTES_OF_KEPT // (4 * n_features)))
        self._features = np.empty((n_rows, n_features), dtype=np.float32)
        # In the random order; free rows come last, and the first of them as the very last.
        self._places = n_samples + np.arange(n_rows)[::-1]
        self._ids = np.zeros(n_rows, dtype=np.intp)
        self.n_seen = 0

    def add(self, features: Features, ids: Indices, places: Indices) -> None:
        """Keep those of the samples that come first in the random order."""
        self.n_seen += len(ids)
        n_rows = len(self._places)
        best = np.argsort(np.concatenate([self._places, places]), kind="stable")[:n_rows]
        new = best[best >= n_rows] - n_rows
        free = np.setdiff1d(np.arange(n_rows), best, assume_unique=True)
        self._features[free], self._places[free], self._ids[free] = features[new], places[new], ids[new]

    @property
    def features(self) -> Features:
        """(m, p)"""
        return self._features[self._used]

    @property
    def ids(self) -> Indices:
        """The numbers of the samples."""
        return self._ids[self._used]

    @property
    def all_are_there(self) -> bool:
        """Whether every sample that counts is kept."""
        return self.n_seen <= len(self._places)

    @property
    def _used(self) -> slice:
        return slice(0, min(self.n_seen, len(self._places)))


class _ApproximateCurvature:
    """About the curvature of some problems at some weights; it can be divided by.

    If all samples that count are kept, it is the curvature. Else it is, along the directions of the
    moments, a diagonal matrix plus products of the rows of those that are kept.
    """

    def __init__(self, svm: LargeSVM, labels: Indices, weights: Floats, state: _State) -> None:
        kept, moments = state.kept, svm.moments
        features = kept.features
        self._moments = _PLAIN if kept.all_are_there else moments
        of_kept = 1.0 if kept.all_are_there else SHARE_OF_KEPT
        share = (1 - of_kept) * 2 * svm.C * state.active / moments.total
        diagonal = 1 + moments.sums[:, None] * share
        rotated = self._moments.rotated_rows(features)
        y, counts, scores = svm.y[kept.ids], svm.counts[kept.ids], _scores(features, weights)
        max_rows = max(1, int((MAX_BYTES_OF_FACTORS / (8 * len(labels))) ** 0.5))
        if len(diagonal) <= max_rows:
            max_rows = max(1, len(rotated))  # their products are no larger
        self._columns = []
        for k, label in enumerate(labels):
            counting = np.flatnonzero(np.where(y == label, scores[:, k], -scores[:, k]) < 1)
            own = counting[:: max(1, -(-len(counting) // max_rows))]
            more = state.active[k] / max(float(counts[own].sum()), 1e-30)
            scale = np.sqrt(of_kept * 2 * svm.C * more * counts[own]).astype(np.float32)
            self._columns.append(_ColumnCurvature(rotated, own, scale, diagonal[:, k]))

    def divide(self, residual: Floats, columns: Indices) -> Floats:
        """The inverse times residuals (p + 1, q) of these columns."""
        rotated = self._moments.rotated(residual)
        divided = np.empty_like(rotated)
        for k, column in enumerate(columns):
            divided[:, k] = self._columns[column].divide(rotated[:, k])
        return self._moments.rotated_back(divided)


class _ColumnCurvature:
    """Of one column: rows R and a diagonal D, D + R^T R; by Woodbury's formula if the rows are few."""

    def __init__(self, rotated: Features, own: Indices, scale: Features, diagonal: Floats) -> None:
        self._rotated, self._own, self._scale, self._diagonal = rotated, own, scale, diagonal
        rows, n_features = self._scaled(), len(diagonal)
        self._few = len(own) <= n_features
        if self._few:
            matrix = (rows / diagonal) @ rows.T
            matrix[np.diag_indices(len(own))] += 1
        else:
            matrix = rows.T @ rows
            matrix[np.diag_indices(n_features)] += diagonal
        self._factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def _scaled(self) -> Floats:
        return (self._rotated[self._own] * self._scale[:, None]).astype(np.float64)

    def divide(self, column: Floats) -> Floats:
        """The inverse times a column (p + 1,)."""
        if not self._few:
            return np.asarray(cho_solve(self._factor, column, check_finite=False))
        rows, divided = self._scaled(), column / self._diagonal
        solved = cho_solve(self._factor, rows @ divided, check_finite=False)
        return np.asarray(divided - (rows.T @ solved) / self._diagonal)


class _State(NamedTuple):
    """Some problems at some weights.

    values (q,), gradients (p + 1, q), active (q,): counts of the samples that count, and some of these
    """

    values: Floats
    gradients: Floats
    active: Floats
    kept: _Kept


@dataclass(frozen=True, eq=False)
class _Problems:
    """Some classes of a `LargeSVM`.

    Attributes
    ----------
    order : (n,), the random order in which samples are kept
    readings : the next one is taken for each reading of the samples
    """

    svm: LargeSVM
    labels: Indices
    order: Indices
    readings: Iterator[None]

    def solve(self, weights: Floats) -> Floats:
        """Newton's method from a start; a column is done when its next step would hardly matter."""
        weights, going = weights.copy(), np.arange(len(self.labels))
        state = self._state(weights, going)
        for _ in range(MAX_NEWTON_STEPS):
            step, decrease = self._direction(weights[:, going], state, going)
            matters = decrease > MAX_DECREASE_LEFT * state.values
            weights[:, going[~matters]] += step[:, ~matters]
            going, step = going[matters], step[:, matters]
            if not len(going):
                break
            values = state.values[matters]
            weights[:, going], state = self._move(weights[:, going], step, values, going)
        return weights

    def _move(
        self, weights: Floats, step: Floats, values: Floats, columns: Indices
    ) -> tuple[Floats, _State]:
        """Weights after the step, or after a part of it where values would increase, and their state."""
        state = self._state(weights + step, columns)
        worse = np.flatnonzero(~(state.values <= (1 + ROUNDING) * values))
        if not len(worse):
            return weights + step, state
        at_sizes = self._values_along(weights[:, worse], step[:, worse], columns[worse])
        size = np.ones(len(columns))
        size[worse] = np.where(
            at_sizes.min(axis=0) < values[worse], STEP_SIZES[at_sizes.argmin(axis=0)], 0.0
        )
        return weights + size * step, self._state(weights + size * step, columns)

    def _direction(self, weights: Floats, state: _State, columns: Indices) -> tuple[Floats, Floats]:
        """Newton's step of each column, nearly (`GRADIENT_LEFT`), and what it takes off its value."""
        nearly = _ApproximateCurvature(self.svm, self.labels[columns], weights, state)
        going = np.arange(len(columns))
        step, residual = np.zeros_like(weights), -state.gradients
        towards = nearly.divide(residual, going)
        direction, fall = towards, _dot(residual, towards)
        solved, going = GRADIENT_LEFT**2 * fall, np.flatnonzero(fall > 0)
        for _ in range(MAX_PRODUCTS):
            if not len(going):
                break
            image = self._curvature(weights[:, going], direction[:, going], columns[going])
            size = fall[going] / _dot(direction[:, going], image)
            step[:, going] += size * direction[:, going]
            residual[:, going] -= size * image
            towards = nearly.divide(residual[:, going], going)
            before = fall[going]
            fall[going] = _dot(residual[:, going], towards)
            direction[:, going] = towards + fall[going] / before * direction[:, going]
            going = going[fall[going] > solved[going]]
        return step, _dot(step, residual - state.gradients) / 2

    def _state(self, weights: Floats, columns: Indices) -> _State:
        losses, active = np.zeros(len(columns)), np.zeros(len(columns))
        gradients = np.zeros_like(weights)
        kept = _Kept(self.svm.samples.n_features, len(self.svm.samples))
        for rows, features, signs, counts in self._parts(columns):
            slack = np.maximum(1 - signs * _scores(features, weights), 0)
            counted = slack * counts
            losses += np.einsum("ij,ij->j", counted, slack, dtype=np.float64)
            active += counts[:, 0] @ (slack > 0)
            _add(gradients, features, signs * counted)
            own = np.flatnonzero(counted.any(axis=1))
            kept.add(features[own], rows.start + own, self.order[rows.start + own])
        values = np.square(weights).sum(axis=0) / 2 + self.svm.C * losses
        return _State(values, weights - 2 * self.svm.C * gradients, active, kept)

    def _curvature(self, weights: Floats, direction: Floats, columns: Indices) -> Floats:
        """The second derivative at the weights, times a direction."""
        image = np.zeros_like(direction)
        both = np.hstack([weights, direction])
        for _, features, signs, counts in self._parts(columns):
            at, along = np.hsplit(_scores(features, both), 2)
            _add(image, features, np.where(signs * at < 1, counts * along, np.float32(0)))
        return direction + 2 * self.svm.C * image

    def _values_along(self, weights: Floats, step: Floats, columns: Indices) -> Floats:
        """Values after parts of a step, (sizes, q)."""
        losses = np.zeros((len(STEP_SIZES), len(columns)))
        both = np.hstack([weights, step])
        for _, features, signs, counts in self._parts(columns):
            at, along = np.hsplit(_scores(features, both), 2)
            for number, size in enumerate(STEP_SIZES.astype(np.float32)):
                slack = np.maximum(1 - signs * (at + size * along), 0)
                losses[number] += np.einsum("ij,ij->j", counts * slack, slack, dtype=np.float64)
        moved = weights[None] + STEP_SIZES[:, None, None] * step
        return np.asarray(np.square(moved).sum(axis=1) / 2 + self.svm.C * losses)

    def _parts(self, columns: Indices) -> Iterator[_Part]:
        own = self.labels[columns]
        next(self.readings)
        for rows, features in read(self.svm.samples, "reading features"):
            signs = np.where(self.svm.y[rows, None] == own, np.float32(1), np.float32(-1))
            yield _Part(rows, features, signs, self.svm.counts[rows, None])


class _Part(NamedTuple):
    """Some samples: their numbers, features, signs of their classes (n, q), and how much they count."""

    rows: slice
    features: Features
    signs: Features
    counts: Features


def _scores(features: Features, weights: Floats) -> Features:
    """Decision values (n, q)."""
    single = weights.astype(np.float32)
    return np.asarray(features @ single[:-1] + single[-1])


def _add(sums: Floats, features: Features, values: Features) -> None:
    """Add the features of samples, with a one at the end, times these values of them."""
    sums[:-1] += features.T @ values
    sums[-1] += values.sum(axis=0, dtype=np.float64)


def _dot(a: Floats, b: Floats) -> Floats:
    """Inner products of columns."""
    return np.asarray(np.einsum("ij,ij->j", a, b))
