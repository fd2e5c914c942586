"""Would more images help? Accuracy in validation against the number of training images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midfea.learning.class_weights import Weights
from midfea.learning.folds import Indices, make_folds, splits
from midfea.learning.head import split_scores
from midfea.progress import track

SHARES = (0.125, 0.25, 0.5, 1.0)  # of the training part
N_SPLITS = 4  # a quarter is held out in each


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy in validation against the number of training images.

    Attributes
    ----------
    sizes : mean numbers of training images, rising
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


def learning_curve(
    features: NDArray[np.float32],
    y: Indices,
    C: float,
    seed: int,
    groups: Indices | None = None,
    shares: Sequence[float] = SHARES,
    class_weights: Weights | None = None,
) -> LearningCurve:
    """The learning curve of a linear SVM.

    Parameters
    ----------
    features : (n, p)
    y : class numbers 0 .. n_classes - 1
    C : penalty of the SVM
    groups : group of each image; a group is never split between training and validation
    shares : of the training part, rising. A class keeps one sample at least.
    class_weights : of the SVM; None: all 1
    """
    folds = make_folds(y, N_SPLITS, seed, groups)
    rng = np.random.RandomState(seed)
    parts = [(part, test) for train, test in splits(folds) for part in _nested(train, y, shares, rng)]
    if not parts:
        return LearningCurve([], [], [])
    work = split_scores(features, y, (C,), parts, class_weights=class_weights)
    scores = track(work, "learning curve", len(parts))
    accuracies = np.reshape(
        [(s[0].argmax(axis=1) == y[test]).mean() for (_, test), s in zip(parts, scores, strict=True)],
        (-1, len(shares)),
    )
    sizes = np.reshape([len(train) for train, _ in parts], (-1, len(shares)))
    return LearningCurve(
        np.mean(sizes, axis=0).round().astype(int).tolist(),
        np.mean(accuracies, axis=0).tolist(),
        np.std(accuracies, axis=0).tolist(),
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
