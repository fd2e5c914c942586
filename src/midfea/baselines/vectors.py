"""What the classifiers of vectors share: checked samples at unit length, class numbers, threads."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from midfea.stages import unit_length

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The parameters that these classifiers have in common.
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "n_jobs": [Integral, None],
    "memory_limit": [Interval(Integral, 1, None, closed="left"), None],
    "time_limit": [Interval(Real, 0, None, closed="neither"), None],
}


def labelled_samples(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Floats, NDArray[Any], Indices]:
    """Samples (n, p) at unit length, the classes, and the class number of each sample."""
    X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_min_samples=2)
    kinds = sorted({type(label).__name__ for label in y}) if y.dtype == object else []
    if len(kinds) > 1:
        raise ValueError(
            f"labels of different types cannot be sorted ({', '.join(kinds)}): make them all strings, "
            "or all numbers"
        )
    check_classification_targets(y)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"samples of 2 classes or more are needed, got 1 class ({classes[0]!r})")
    return np.asarray(unit_length(X), dtype=np.float64), classes, numbers


def new_samples(estimator: BaseEstimator, X: Any) -> Floats:
    """Samples (n, p) at unit length, as many numbers in each as in training."""
    X = validate_data(estimator, X, dtype=np.float64, reset=False)
    return np.asarray(unit_length(X), dtype=np.float64)
