"""Labels as class numbers, and scores of classes as labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from midfea.learning.folds import Indices


class PredictsByScores(ClassifierMixin, ABC):
    """Mixin: the class with the largest score is the answer."""

    classes_: NDArray[Any]

    @abstractmethod
    def _scores(self, X: Any) -> NDArray[Any]:
        """A score of each class for each sample, (n, n_classes)."""

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores (n, n_classes); of two classes the second's less the first's, (n,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each sample."""
        numbers = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[numbers])


def class_numbers(y: Any, images: Sized) -> tuple[NDArray[Any], Indices]:
    """The classes, sorted, and the number of each image's class."""
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    if len(labels) != len(images):
        raise ValueError(
            f"{len(images)} images, but {len(labels)} labels: give one label for each image"
        )
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"all labels are of one class, {classes[0]!r}: two classes or more are needed")
    return classes, numbers
