"""The linear head of samples that do not fit into memory: validation, calibration, and what belongs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from midfea.learning.belonging import Belonging, fit_belonging
from midfea.learning.class_weights import Weights
from midfea.learning.folds import ALWAYS_TRAINING, Indices, hold_out_one_fold
from midfea.learning.head import LinearHead, calibrate
from midfea.learning.large_svm import Floats, LargeSVM, moments
from midfea.learning.samples import Samples, take
from midfea.learning.validation import Validation

MIN_FOLDS = 10
MAX_HELD_OUT, MIN_HELD_OUT = 10_000, 1000  # as many as their features may take
MAX_BYTES_HELD_OUT = 2**28
N_FOR_DIRECTIONS = 2000  # training samples that show in which directions features vary
N_FOR_CHOICES, N_OF_CLASS = 6000, 10  # samples by which settings are chosen; of each class at least


def rows_for_choices(y: Indices, seed: int) -> Indices:
    """Some of the samples, at random, sorted: settings are chosen by them. No class is missing."""
    order = np.random.RandomState(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    rank = np.arange(len(y)) - np.searchsorted(y[order], y[order])
    needed, others = order[rank < N_OF_CLASS], order[rank >= N_OF_CLASS]
    others = np.random.RandomState(seed).permutation(others)
    return np.sort(np.concatenate([needed, others[: max(0, N_FOR_CHOICES - len(needed))]]))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fold of the samples, held out.

    Attributes
    ----------
    folds : (n,), 0 for those held out, else `ALWAYS_TRAINING`
    n_folds : folds that there could be
    groups : (n,) or None
    """

    folds: Indices
    n_folds: int
    groups: Indices | None

    @classmethod
    def of(cls, y: Indices, n_features: int, seed: int, groups: Indices | None) -> HeldOut:
        """As many samples as make a narrow interval, and not more than memory can hold."""
        n_wanted = np.clip(MAX_BYTES_HELD_OUT // (4 * n_features), MIN_HELD_OUT, MAX_HELD_OUT)
        n_folds = max(MIN_FOLDS, -(-len(y) // int(n_wanted)))
        return cls(hold_out_one_fold(y, n_folds, seed, groups), n_folds, groups)

    @property
    def indices(self) -> Indices:
        """Of the samples held out."""
        return np.flatnonzero(self.folds != ALWAYS_TRAINING)


def fit_large_head(
    samples: Samples,
    y: Indices,
    start: LinearHead,
    weights: Weights | None,
    held_out: HeldOut,
    seed: int,
) -> tuple[LinearHead, Validation]:
    """The linear SVM of all samples, and what one without those held out says of these.

    start : the head of some of the samples, for its C and to begin with
    weights : of the classes
    """
    n_classes = int(y.max()) + 1
    counts = np.ones(len(y), np.float32) if weights is None else weights[y].astype(np.float32)
    training = counts * (held_out.folds == ALWAYS_TRAINING)
    svm = LargeSVM(
        samples,
        y,
        n_classes,
        training,
        start.C,
        moments(samples, training, "second moments"),
        seed,
        "classifier without those held out",
    )
    found = svm.fit(np.vstack([start.coef.T, start.intercept]))
    head = _head(found, start.C, 1.0)
    indices = held_out.indices
    scores = head.scores(take(samples, indices, "validation"))
    scale = calibrate(scores, y[indices], n_uniform=1, class_weights=weights)[0]
    validation = Validation.of(
        indices, scale * scores.astype(np.float64), y, held_out.folds, held_out.n_folds, held_out.groups
    )
    found = replace(svm, counts=counts, step="classifier of all", usual_readings=12).fit(found)
    return _head(found, start.C, scale), validation


def _head(weights: Floats, C: float, scale: float) -> LinearHead:
    single = weights.astype(np.float32)
    return LinearHead(np.ascontiguousarray(single[:-1].T), single[-1], C, scale)


def fit_large_belonging(
    samples: Samples, validation: Validation, held_out: HeldOut, seed: int
) -> Belonging | None:
    """`fit_belonging` from the samples held out and some others."""
    n = len(samples)
    others = np.setdiff1d(
        np.random.RandomState(seed).permutation(n)[:N_FOR_DIRECTIONS], held_out.indices
    )
    rows = np.union1d(held_out.indices, others)
    features: NDArray[np.float32] = take(samples, rows, "what belongs to the classes")
    groups = None if held_out.groups is None else held_out.groups[rows]
    among = replace(validation, indices=np.searchsorted(rows, validation.indices))
    return fit_belonging(among, features, held_out.folds[rows], groups, seed)
