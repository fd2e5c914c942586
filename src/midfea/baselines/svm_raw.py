"""`SVMRaw`: raw pixels and a linear SVM, what every feature must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.labels import class_numbers
from midfea.baselines.linear_svm import fit_svm
from midfea.baselines.local_features import grey_images
from midfea.learning.head import C_CANDIDATES, Features
from midfea.parallel import linear_algebra_threads
from midfea.pictures.resize import Grey, resize


def pixel_vector(image: Grey, shape: tuple[int, int] | None) -> Features:
    """Pixels over 255 as a vector, the image reduced to one shape (height, width) if one is given."""
    pixels = image if shape is None else resize(image, shape)
    return pixels.ravel().astype(np.float32) / np.float32(255)


def raw_pixels(images: Sequence[Any], shape: tuple[int, int] | None) -> Features:
    """The vectors of grey images, one row for each: (n, height * width)."""
    return np.stack([pixel_vector(np.asarray(image), shape) for image in images])


@dataclass(eq=False, repr=False)
class SVMRaw(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """A linear SVM on grey pixels.

    Parameters
    ----------
    shape : (int, int) or None, default=(32, 32)
        Height and width to which each image is reduced; None if all images have one size, which is kept.
    C : float or "auto", default="auto"
        Penalty of errors; "auto" takes the best of 0.1, 1, 10 and 100 in validation. Pixels are centred
        and scaled to a mean squared length of 1 for the SVM.
    random_state : int, default=0
        Seed of the folds of validation.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.

    Examples
    --------
    >>> from midfea.baselines.svm_raw import SVMRaw
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48)
    >>> model = SVMRaw(shape=(16, 16)).fit(data.images, data.target)
    >>> model.transform(data.images[:2]).shape, model.predict(data.images[:2]).shape
    ((2, 256), (2,))
    """

    shape: tuple[int, int] | None = (32, 32)
    C: float | Literal["auto"] = "auto"
    _: KW_ONLY
    random_state: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "shape": [tuple, list, None],
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags

    def fit(self, images: Any, y: Any, groups: Any = None) -> SVMRaw:
        """Learn from images (as `MidFeaClassifier` takes them) with labels y.

        Groups are not split between the folds of validation.
        """
        self._validate_params()
        greys = grey_images(images)
        self.classes_, numbers = class_numbers(y, greys)
        pixels = self._pixels(greys)
        self._n_features_out = pixels.shape[1]
        candidates = C_CANDIDATES if self.C == "auto" else (float(self.C),)
        with linear_algebra_threads(1):  # the same sums on any number of cores
            self.svm_ = fit_svm(pixels, numbers, self.random_state, groups, candidates)
        return self

    def transform(self, images: Any) -> Features:
        """The pixels, 0 to 1, as rows (n, height * width)."""
        check_is_fitted(self)
        pixels = self._pixels(grey_images(images))
        if pixels.shape[1] != self._n_features_out:
            raise ValueError(
                f"images of {self._n_features_out} pixels expected, got {pixels.shape[1]}: "
                "give images of the size of the training images, or fit with a shape"
            )
        return pixels

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image."""
        pixels = self.transform(images)
        with linear_algebra_threads(1):
            return np.asarray(self.classes_[self.svm_.predict(pixels)])

    def _pixels(self, greys: Sequence[Grey]) -> Features:
        if self.shape is not None:
            height, width = self.shape
            return raw_pixels(greys, (height, width))
        if len({grey.shape for grey in greys}) > 1:
            raise ValueError("the images differ in size: give a shape, such as shape=(32, 32)")
        return raw_pixels(greys, None)
