"""Labels as class numbers."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from midfea.learning.folds import Indices


def decision_values(scores: NDArray[Any]) -> NDArray[Any]:
    """Scores (n, n_classes) as scikit-learn has them: of two classes one column, for the second."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


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
