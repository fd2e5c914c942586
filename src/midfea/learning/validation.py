"""What classifiers say of samples that they did not see: in folds, and from smaller training parts.

Both reuse one Gram matrix, so that they cost little beside the features themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from midfea.learning.svm import (
    GRAM_LIMIT,
    class_signs,
    gram,
    gram_product,
    margins_to_scores,
    solve,
    solve_gram,
)
from midfea.parallel import in_parallel
from midfea.progress import track

Indices = NDArray[np.intp]
N_FOLDS, N_FOLDS_LARGE = 10, 5
LARGE = 2e8  # samples^2 x classes: from here on ten folds would take minutes
SHARES = (0.125, 0.25, 0.5, 1.0)  # of the training part, in a learning curve
N_AT_ONCE = 4  # SVMs learned at the same time: each has a part of the Gram matrix for itself
N_SPLITS = 4  # of a learning curve: a quarter is held out in each


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy on held-out samples against the number of samples learned from.

    sizes : mean numbers of samples learned from, rising
    accuracies, deviations : mean and standard deviation over the splits, for each size
    """

    sizes: list[int]
    accuracies: list[float]
    deviations: list[float]

    def gain(self) -> float:
        """What the last doubling brought, in accuracy; NaN if there was none."""
        if len(self.sizes) < 2:
            return float("nan")
        return self.accuracies[-1] - self.accuracies[-2]


def deal(y: Indices, n_folds: int, seed: int, copies: Sequence[Any] | None = None) -> Indices:
    """The fold of each sample, every class dealt out evenly; -1 for the only sample of a class.

    A class of two samples does not reduce the number of folds, as it would in scikit-learn's
    `StratifiedKFold`: it is absent from most test parts, and from no training part. Samples of a class
    with the same value in `copies` come into one fold.
    """
    rng = np.random.RandomState(seed)
    names = np.arange(len(y)) if copies is None else np.unique(copies, return_inverse=True)[1]
    fold = np.full(len(y), -1, dtype=np.intp)
    dealt = 0
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        different, which = np.unique(names[members], return_inverse=True)
        if len(different) > 1:
            fold[members] = (dealt + rng.permutation(len(different))[which]) % n_folds
            dealt += len(different)
    return fold


def n_folds_for(y: Indices) -> int:
    """Ten, or five where that would take long."""
    return N_FOLDS if len(y) ** 2 * (int(y.max()) + 1) <= LARGE else N_FOLDS_LARGE


def held_out_scores(
    features: NDArray[Any],
    y: Indices,
    C: float,
    seed: int,
    n_folds: int,
    copies: Sequence[Any] | None = None,
) -> NDArray[np.float32]:
    """Scores (n, n_classes) of each sample by an SVM that learned from the other folds.

    NaN for a sample that is the only one of its class. `copies`: see `deal`.
    """
    fold = deal(y, n_folds, seed, copies)
    scores = np.full((len(y), int(y.max()) + 1), np.nan, dtype=np.float32)
    splits = [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_folds)]
    splits = [(train, test) for train, test in splits if len(test)]
    found = _SharedSvm(features, y, C).all_scores(splits)
    for (_, test), told in zip(splits, track(found, "checking", len(splits)), strict=True):
        scores[test] = told
    return scores


def learning_curve(
    features: NDArray[Any], y: Indices, C: float, seed: int, shares: Sequence[float] = SHARES
) -> LearningCurve:
    """Would more images help? Accuracy on held-out samples, learned from parts of the others.

    Parameters
    ----------
    features : (n, p)
    y : class numbers 0 .. n_classes - 1
    C : penalty of the SVM
    shares : of the training part, rising. A class keeps one sample at least.
    """
    fold = deal(y, N_SPLITS, seed)
    rng = np.random.RandomState(seed)
    splits = [
        (part, np.flatnonzero(fold == i))
        for i in range(N_SPLITS)
        if (fold == i).any()
        for part in _nested(np.flatnonzero(fold != i), y, shares, rng)
    ]
    if not splits:
        return LearningCurve([], [], [])
    found = _SharedSvm(features, y, C).all_scores(splits)
    told = zip(splits, track(found, "learning curve", len(splits)), strict=True)
    right = np.reshape(
        [(scores.argmax(axis=1) == y[test]).mean() for (_, test), scores in told], (-1, len(shares))
    )
    sizes = np.reshape([len(train) for train, _ in splits], (-1, len(shares)))
    return LearningCurve(
        np.mean(sizes, axis=0).round().astype(int).tolist(),
        np.mean(right, axis=0).tolist(),
        np.std(right, axis=0).tolist(),
    )


def _nested(
    train: Indices, y: Indices, shares: Sequence[float], rng: np.random.RandomState
) -> list[Indices]:
    """A part for each share, every one within the next, the same share of each class."""
    order = [rng.permutation(train[y[train] == label]) for label in np.unique(y[train])]
    return [
        np.sort(np.concatenate([members[: max(1, round(share * len(members)))] for members in order]))
        for share in shares
    ]


class _SharedSvm:
    """SVMs on parts of one set of samples, from one Gram matrix where that fits into memory."""

    def __init__(self, features: NDArray[Any], y: Indices, C: float) -> None:
        self.features, self.targets, self.C = features, class_signs(y), C
        self.gram = gram(features) if len(y) <= GRAM_LIMIT else None

    def all_scores(self, splits: Sequence[tuple[Indices, Indices]]) -> Iterator[NDArray[np.float32]]:
        """`scores` of each pair of training and test samples, some at a time."""
        fitting = GRAM_LIMIT**2 // (2 * len(self.targets) ** 2)  # into memory
        n_threads = max(1, min(int(joblib.effective_n_jobs(-1)), N_AT_ONCE, fitting))
        return in_parallel(lambda i: self.scores(*splits[i]), range(len(splits)), n_threads)

    def scores(self, train: Indices, test: Indices) -> NDArray[np.float32]:
        """Of the test samples, a column for each class."""
        if self.gram is not None:
            alpha = solve_gram(self.gram[np.ix_(train, train)], self.targets[train], self.C)
            return margins_to_scores(self.gram[np.ix_(test, train)] @ alpha)
        inputs = self.features[train]
        alpha = solve(gram_product(inputs), self.targets[train], self.C)
        return margins_to_scores(self.features[test] @ (inputs.T @ alpha) + alpha.sum(axis=0))
