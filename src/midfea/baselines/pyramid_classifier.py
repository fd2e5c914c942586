"""What KSPM, LLC and ScSPM share: a pyramid of coded SIFT descriptors, and an SVM on it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, Self

from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from midfea.baselines.labels import PredictsByScores, class_numbers
from midfea.baselines.limits import Deadline
from midfea.baselines.linear_svm import fit_svm
from midfea.baselines.pyramid import Encoding, SpatialPyramid
from midfea.baselines.pyramid_base import POSITIVE, PyramidBase
from midfea.learning.folds import Indices
from midfea.learning.head import C_CANDIDATES, Features
from midfea.parallel import linear_algebra_threads
from midfea.pictures.images import Images


class Svm(Protocol):
    """A fitted SVM."""

    def scores(self, features: Features) -> Features:
        """Decision values (n, n_classes) of features (n, p)."""


@dataclass(eq=False, repr=False, kw_only=True)
class PyramidClassifier(PredictsByScores, PyramidBase):
    """What a subclass adds are parameters of `SpatialPyramid`, under the same names.

    Parameters
    ----------
    C : penalty of errors in the SVM; "auto" takes the best of 0.1, 1, 10 and 100 in validation. A linear
        SVM sees features that are centred and scaled to a mean squared length of 1.

    Attributes
    ----------
    classes_ : the labels, sorted
    pyramid_ : the fitted `SpatialPyramid`, from images to features
    svm_ : the fitted SVM; `scores` takes features to decision values
    """

    C: float | Literal["auto"] = "auto"

    encoding: ClassVar[Encoding]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PyramidBase._parameter_constraints | {
        "C": [POSITIVE, StrOptions({"auto"})],
    }

    def fit(self, images: Any, y: Any, groups: Any = None) -> Self:
        """Learn words, then the SVM.

        Parameters
        ----------
        images : list of arrays (height, width[, 3]), stack of arrays, or list of file names
        y : label of each image
        groups : group of each image (e.g. the person shown); validation never splits one
        """
        self.check_parameters()
        deadline = Deadline(self.time_limit, type(self).__name__)
        images = Images(images)
        check_consistent_length(images, groups)
        self.classes_, numbers = class_numbers(y, images)
        greys, rng = self.greys(images), check_random_state(self.random_state)
        self.pyramid_ = self._pyramid(rng.randint(2**31 - 1)).learn(greys, deadline)
        features = self.pyramid_.features(greys, deadline)
        with linear_algebra_threads(1):  # the same SVM for any number of threads
            self.svm_ = self._fit_svm(features, numbers, rng.randint(2**31 - 1), groups, deadline)
        deadline.check()
        return self

    def _scores(self, images: Any) -> Features:
        check_is_fitted(self, "svm_")
        deadline = Deadline(self.time_limit, type(self).__name__)
        features = self.pyramid_.features(self.greys(images), deadline)
        with linear_algebra_threads(1):
            return self.svm_.scores(features)

    def _pyramid(self, seed: int) -> SpatialPyramid:
        """Not fitted yet."""
        names = {field.name for field in fields(SpatialPyramid)}
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name in names}
        return SpatialPyramid(encoding=self.encoding, **values | {"random_state": seed})

    def _fit_svm(
        self, features: Features, y: Indices, seed: int, groups: Any, deadline: Deadline
    ) -> Svm:
        """The linear SVM of every comparison."""
        return fit_svm(features, y, seed, groups, self._candidates)

    @property
    def _candidates(self) -> tuple[float, ...]:
        """Values of C to choose from by validation."""
        return C_CANDIDATES if self.C == "auto" else (float(self.C),)
