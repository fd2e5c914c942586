"""Classifiers of images by a feature that is not learned and a linear SVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.labels import class_numbers
from midfea.baselines.linear_svm import fit_svm
from midfea.baselines.local_features import grey_images, hog_maps
from midfea.baselines.raw_pixels import pixel_vector
from midfea.learning.head import Features
from midfea.parallel import in_parallel, linear_algebra_threads, n_threads
from midfea.pictures.resize import Grey, resize
from midfea.stages import unit_length

Extract = Callable[[Grey], Features]  # an image to its feature vector
LearnFeature = Callable[[Sequence[Grey], int], Extract]  # from training images and a seed

PIXELS_SIDE = 32  # pixels
HOG_SIDE = 96  # pixels: 11x11 blocks of 2x2 cells


@dataclass(eq=False, repr=False)
class FeatureSVM(ClassifierMixin, BaseEstimator):
    """A feature of images and a linear SVM on it, C chosen by validation.

    Parameters
    ----------
    feature : "pixels" or "hog" (see `FEATURES`), or a function from training images and a seed to a
        function from an image to its vector
    n_jobs : int, default=None, threads; None means all cores
    random_state : int, default=0

    Examples
    --------
    >>> from midfea.baselines import FeatureSVM
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48)
    >>> FeatureSVM("hog", n_jobs=1).fit(data.images, data.target).predict(data.images[:2]).shape
    (2,)
    """

    feature: str | LearnFeature = "pixels"
    n_jobs: int | None = None
    random_state: int = 0

    def fit(self, images: Sequence[Any], y: Any, groups: Any = None) -> FeatureSVM:
        """Images as `MidFeaClassifier` takes them; groups are not split between validation folds."""
        if isinstance(self.feature, str) and self.feature not in FEATURES:
            raise ValueError(f"no feature {self.feature!r}: choose from {', '.join(FEATURES)}")
        learn = FEATURES[self.feature] if isinstance(self.feature, str) else self.feature
        greys = grey_images(images)
        self.classes_, numbers = class_numbers(y, greys)
        with linear_algebra_threads(n_threads(self.n_jobs)):
            self.extract_ = learn(greys, self.random_state)
        features = self._features(greys)
        with linear_algebra_threads(n_threads(self.n_jobs)):
            self.svm_ = fit_svm(features, numbers, self.random_state, groups)
        return self

    def predict(self, images: Sequence[Any]) -> NDArray[Any]:
        """The label of each image."""
        check_is_fitted(self, "svm_")
        return np.asarray(self.classes_[self.svm_.predict(self._features(grey_images(images)))])

    def _features(self, greys: Sequence[Grey]) -> Features:
        work = in_parallel(lambda i: self.extract_(greys[i]), range(len(greys)), n_threads(self.n_jobs))
        return np.stack(list(work))


def _pixels(images: Sequence[Grey], seed: int) -> Extract:
    return partial(pixel_vector, shape=(PIXELS_SIDE, PIXELS_SIDE))


def _hog(images: Sequence[Grey], seed: int) -> Extract:
    return _hog_vector


def _hog_vector(image: Grey) -> Features:
    return unit_length(hog_maps(resize(image, (HOG_SIDE, HOG_SIDE))).ravel())


FEATURES: dict[str, LearnFeature] = {"pixels": _pixels, "hog": _hog}
