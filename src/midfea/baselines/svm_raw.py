"""`SVMRaw`: raw pixels and a linear SVM, what every feature must beat."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.labels import PredictsByScores, class_numbers
from midfea.baselines.linear_svm import fit_svm
from midfea.baselines.raw_pixels import RawPixels
from midfea.estimators.takes_images import TakesImages
from midfea.learning.head import C_CANDIDATES, Features
from midfea.parallel import linear_algebra_threads


@dataclass(eq=False, repr=False)
class SVMRaw(TakesImages, PredictsByScores, BaseEstimator):
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
    pixels_ : RawPixels
    svm_ : midfea.baselines.linear_svm.StandardisedSvm

    Examples
    --------
    >>> from midfea.baselines.svm_raw import SVMRaw
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48)
    >>> SVMRaw(shape=(16, 16)).fit(data.images, data.target).predict(data.images[:2]).shape
    (2,)
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

    def fit(self, images: Any, y: Any, groups: Any = None) -> SVMRaw:
        """Learn from images (as `MidFeaClassifier` takes them) with labels y.

        Groups are not split between the folds of validation.
        """
        self._validate_params()
        self.pixels_ = RawPixels(self.shape)
        vectors = self.pixels_.fit_transform(images)
        self.classes_, numbers = class_numbers(y, vectors)
        candidates = C_CANDIDATES if self.C == "auto" else (float(self.C),)
        with linear_algebra_threads(1):  # the same sums on any number of cores
            self.svm_ = fit_svm(vectors, numbers, self.random_state, groups, candidates)
        return self

    def _scores(self, images: Any) -> Features:
        check_is_fitted(self)
        vectors = self.pixels_.transform(images)
        with linear_algebra_threads(1):
            return self.svm_.scores(vectors)
