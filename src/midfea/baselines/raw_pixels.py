"""`RawPixels`: images to their grey pixels, where systems without a feature of their own begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.local_features import grey_images
from midfea.estimators.takes_images import TakesImages
from midfea.learning.head import Features
from midfea.pictures.resize import Grey, resize


def pixel_vector(image: Grey, shape: tuple[int, int] | None) -> Features:
    """Pixels over 255 as a vector, the image reduced to one shape (height, width) if one is given."""
    pixels = image if shape is None else resize(image, shape)
    return pixels.ravel().astype(np.float32) / np.float32(255)


def raw_pixels(images: Sequence[Any], shape: tuple[int, int] | None) -> Features:
    """The vectors of grey images, one row for each: (n, height * width)."""
    return np.stack([pixel_vector(np.asarray(image), shape) for image in images])


@dataclass(eq=False, repr=False)
class RawPixels(TakesImages, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Grey pixels, 0 to 1, as vectors.

    Parameters
    ----------
    shape : (int, int) or None, default=(32, 32)
        Height and width to which each image is reduced; None if all images have one size, which is kept.

    Attributes
    ----------
    shape_ : (int, int)
        Height and width that every image has in the end.

    Examples
    --------
    >>> from midfea.baselines.raw_pixels import RawPixels
    >>> from midfea.datasets import load_surfaces
    >>> RawPixels((8, 16)).fit_transform(load_surfaces(n_per_class=1, size=48).images).shape
    (6, 128)
    """

    shape: tuple[int, int] | None = (32, 32)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"shape": [tuple, list, None]}

    def fit(self, images: Any, y: Any = None) -> RawPixels:
        """Look at the size of images (as `MidFeaClassifier` takes them); `y` is ignored."""
        self._learn(images)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Features:
        """`fit` and `transform`; the images are read once."""
        return raw_pixels(self._learn(X), self.shape_)

    def transform(self, images: Any) -> Features:
        """The pixels, 0 to 1, as rows (n, height * width)."""
        check_is_fitted(self)
        greys = grey_images(images)
        for i, grey in enumerate(greys):
            if self.shape is None and grey.shape != self.shape_:
                raise ValueError(
                    f"image {i} has {grey.shape[0]}x{grey.shape[1]} pixels, expected are "
                    f"{self.shape_[0]}x{self.shape_[1]}, as in training: or fit with a shape"
                )
        return raw_pixels(greys, self.shape_)

    def _learn(self, images: Any) -> list[Grey]:
        self._validate_params()
        greys = grey_images(images)
        shape = greys[0].shape if self.shape is None else tuple(self.shape)
        if len(shape) != 2 or not all(isinstance(side, int | np.integer) and side > 0 for side in shape):
            raise ValueError(f"shape must be a height and a width, such as (32, 32), got {self.shape!r}")
        if self.shape is None and len({grey.shape for grey in greys}) > 1:
            raise ValueError("the images differ in size: give a shape, such as shape=(32, 32)")
        self.shape_ = (int(shape[0]), int(shape[1]))
        self._n_features_out = self.shape_[0] * self.shape_[1]
        return greys
