"""`Validation`: the one record of what models said of samples they did not see.

`fit` makes it, the model file keeps it, and every accuracy, interval, confusion matrix and calibration
that is shown comes from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from midfea.learning.folds import Indices, count_groups
from midfea.learning.interval import Interval, cross_validated, overlap_factor

# Below, intervals cover the accuracy on new images too rarely.
MIN_IMAGES, MIN_IMAGES_PER_CLASS = 20, 5


@dataclass(frozen=True, eq=False)
class Validation:
    """Predictions for training images by models trained without them.

    Attributes
    ----------
    indices : (n,), which training images were held out
    labels : (n,), their class numbers
    scores : (n, n_classes), of the model without them; their softmax are probabilities
    folds : (n,), the fold in which each was held out
    n_folds : folds that the training images were dealt to; not all need have been held out
    n_groups : independent groups among the images held out; n if each image is its own
    """

    indices: Indices
    labels: Indices
    scores: NDArray[np.float64] = field(repr=False)
    folds: Indices = field(repr=False)
    n_folds: int
    n_groups: int

    @classmethod
    def of(
        cls,
        indices: Indices,
        scores: NDArray[np.float64],
        y: Indices,
        folds: Indices,
        n_folds: int,
        groups: Indices | None,
    ) -> Validation:
        """The record of some training images, from the labels, folds and groups of all."""
        n_groups = count_groups(groups, indices)
        return cls(indices, y[indices], scores, folds[indices], n_folds, n_groups)

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def predicted(self) -> Indices:
        """Class numbers of the predictions."""
        return self.scores.argmax(axis=1)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Of each image, whether its prediction is its label."""
        return self.predicted == self.labels

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """(n, n_classes)"""
        return np.asarray(softmax(self.scores, axis=1)) if len(self) else self.scores

    @property
    def accuracy(self) -> float:
        """Share of correct predictions; NaN if nothing could be held out."""
        return float(self.correct.mean()) if len(self) else float("nan")

    @cached_property
    def interval(self) -> Interval:
        """Of the accuracy on new images: 95 %. A group counts as one image.

        With too few images it is NaN, and the interval reaches to 1: models that lack one image of a
        class are then much worse than the one that is kept.
        """
        share = self.independent
        found = cross_validated(
            share * int(self.correct.sum()), share * len(self), max(self.n_folds, 2), self.n_used
        )
        return found if self.is_enough else Interval(math.nan, found.low, 1.0)

    @property
    def is_enough(self) -> bool:
        """Whether there are so many images that the accuracy means something."""
        n_images = len(self) * self.n_folds / max(self.n_used, 1)  # also those that were never held out
        n_classes = self.scores.shape[1]
        return len(self) >= MIN_IMAGES and n_images >= MIN_IMAGES_PER_CLASS * n_classes

    @property
    def independent(self) -> float:
        """Independent images by images: a group counts as one image."""
        return self.n_groups / len(self) if len(self) else 1.0

    @property
    def n_used(self) -> int:
        """Folds that were held out."""
        return len(np.unique(self.folds))

    @cached_property
    def worth(self) -> float:
        """How many independent predictions one of these is worth in an interval."""
        return self.independent / overlap_factor(self.n_groups, max(self.n_folds, 2), self.n_used)

    @property
    def how(self) -> str:
        """How the images were held out, in words."""
        n_used = self.n_used
        which = "it" if n_used == self.n_folds else "them"
        subject = f"each of {len(self)} images" if which == "it" else f"{len(self)} images"
        folds = f"{self.n_folds} folds" if which == "it" else f"{n_used} of {self.n_folds} folds"
        kept = f" that keep {self.n_groups} groups whole" if self.n_groups < len(self) else ""
        return f"{subject} predicted by a model trained without {which}, in {folds}{kept}"


def no_validation(n_classes: int) -> Validation:
    """The record where nothing could be held out."""
    none = np.zeros(0, dtype=np.intp)
    return Validation(none, none, np.zeros((0, n_classes)), none, 0, 0)
