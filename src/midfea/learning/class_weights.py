"""How much the images of each class count, in training and in what is chosen by validation.

A class of weight 2 counts as if each of its images were there twice: in the SVM, in the choice of C
and of other settings, in calibration, in the network's batches and in the weights that join the heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
Weights = NDArray[np.float32]  # (n_classes,)

MAX_WEIGHT = 1e6


def check_class_weight(class_weight: Any) -> None:
    """ValueError if the parameter `class_weight` cannot be used."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f'class_weight is None, "balanced" or a dict of weights by class, got {class_weight!r}'
        )
    for label, weight in class_weight.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (number and 0 < weight <= MAX_WEIGHT):
            raise ValueError(
                f"class_weight: the weight of {label!r} must be above zero and at most "
                f"{MAX_WEIGHT:g}, got {weight!r}"
            )


def make_class_weights(class_weight: ClassWeight, classes: NDArray[Any], y: NDArray[np.intp]) -> Weights:
    """The weight of each class; 1 for those that a dict does not name.

    "balanced": classes count the same, whatever their sizes; the mean weight of an image is 1.
    """
    if class_weight is None:
        return np.ones(len(classes), dtype=np.float32)
    if class_weight == "balanced":
        counts = np.bincount(y, minlength=len(classes))
        return (len(y) / (len(classes) * counts)).astype(np.float32)
    names = classes.tolist()
    unknown = [label for label in class_weight if label not in names]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is none of the classes")
    return np.array([class_weight.get(name, 1.0) for name in names], dtype=np.float32)
