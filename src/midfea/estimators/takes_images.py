"""What scikit-learn is told of estimators that take images."""

from __future__ import annotations

from typing import Any


class TakesImages:
    """Mixin, before `BaseEstimator`: the input is a list of images or file names, or a stack."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
