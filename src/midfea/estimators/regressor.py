"""`MidFeaRegressor`: images to numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVR
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from midfea.estimators.base import MidFeaBase
from midfea.estimators.documented import documented
from midfea.estimators.neuron_selectivity import NeuronSelectivity, fit_ns_layer
from midfea.estimators.ns_choice import choose_layer
from midfea.learning.folds import make_folds
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import RegressorParts
from midfea.model_file import SavedModel
from midfea.progress import progress_bars

ALPHAS = tuple(float(a) for a in np.logspace(-3, 2, 11))
C_GRID = (0.1, 1.0, 10.0)
N_FOLDS = 3  # for the settings of an NS layer


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaRegressor(RegressorMixin, MidFeaBase):
    """Images to numbers, such as an age: `MidFea` features and a linear regression.

    Parameters
    ----------
    regression : "ridge", its penalty chosen by leave-one-out on the training images; "svr", a
        linear support vector regression (robust to outliers), its C chosen by cross-validation; or
        "expectation", with `selectivity`: the mean number of the classes that the neurons stand
        for, weighted by their activations.
    selectivity : a neuron-selectivity layer between features and regression (Section 3): a
        `NeuronSelectivity`, or the number of its neurons, its settings chosen by validation. Numbers,
        such as ages, serve as its classes, or equally filled ranges of them: at most 100, of four
        samples or more on average.

    Attributes
    ----------
    coef_, intercept_ : the linear model, (n_features,) and a float
    ns_layer_ : the fitted `midfea.learning.ns_layer.NSLayer`, or None

    Examples
    --------
    >>> from midfea import MidFeaRegressor
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=5, random_state=0)
    >>> brightness = data.images.mean(axis=(1, 2))
    >>> model = MidFeaRegressor(preset="fast", n_words=50, random_state=0)
    >>> model.fit(data.images, brightness).predict(data.images[:2]).shape
    (2,)
    """

    regression: Literal["ridge", "svr", "expectation"] = "ridge"
    selectivity: NeuronSelectivity | int | None = None

    def fit(self, images: Any, y: Any) -> MidFeaRegressor:
        """Learn the features from the images, then the regression from images and numbers."""
        self._check_parameters()
        pictures = self._pictures(images)
        target = self._check_targets(y, len(pictures), "numbers").astype(np.float64)
        assert_all_finite(target, input_name="y")
        if self.regression not in ("ridge", "svr", "expectation"):
            raise ValueError(f'regression is "ridge", "svr" or "expectation", got {self.regression!r}')
        if self.regression == "expectation" and self.selectivity is None:
            raise ValueError('regression="expectation" needs neurons: give selectivity as well')
        with progress_bars(self.verbose):
            self._learn_extractor(pictures)
            features = self.extractor_.transform(pictures, self._n_threads())
            self.ns_layer_: NSLayer | None = None
            if self.selectivity is not None:
                classes, engine = _as_classes(target), self._engine_settings()
                layer = self.selectivity
                if not isinstance(layer, NeuronSelectivity):
                    folds = make_folds(classes, N_FOLDS, self._seed())
                    settings: dict[str, Any] = {"engine": engine, "random_state": self.random_state}
                    layer = choose_layer((layer,), features, classes, folds, **settings).layer
                self.ns_layer_ = fit_ns_layer(layer, features, classes, engine, self.random_state)
                features = self.ns_layer_.activations(features)
            self._fit_linear(features, target)
        return self

    def _fit_linear(self, features: NDArray[np.float32], target: NDArray[np.float64]) -> None:
        if self.regression == "expectation":
            # What each neuron stands for: the mean number of the samples that it responds to. Neurons
            # answer softly to other samples too, which draws those means together: stretch them.
            means = features.T @ target / features.sum(axis=0)
            expected = features @ means / features.sum(axis=1)
            slope, offset = np.polyfit(expected, target, 1) if np.ptp(expected) > 0 else (1.0, 0.0)
            self.coef_ = (slope * means + offset).astype(np.float32)
            self.intercept_ = 0.0
            return
        center, spread = target.mean(), target.std() or 1.0
        scaled = (target - center) / spread
        if self.regression == "ridge":
            model = RidgeCV(ALPHAS).fit(features.astype(np.float64), scaled)
        else:
            svr = LinearSVR(random_state=0, max_iter=200_000)
            n_folds = min(3, len(target))
            search = GridSearchCV(svr, {"C": C_GRID}, cv=n_folds) if n_folds > 1 else svr
            fitted = search.fit(features, scaled)
            model = getattr(fitted, "best_estimator_", fitted)
        self.coef_ = (model.coef_ * spread).astype(np.float32)
        self.intercept_ = float(np.ravel(model.intercept_)[0] * spread + center)

    @property
    def parts_(self) -> RegressorParts:
        """The fitted parts together."""
        return RegressorParts(
            self._extractor(),
            self.ns_layer_,
            self.coef_,
            self.intercept_,
            self.settings_["regression"] == "expectation",
        )

    def predict(self, images: Any) -> NDArray[np.float64]:
        """The number of each image."""
        check_is_fitted(self, "coef_")
        return self.parts_.numbers(self.features(images))

    def _saved(self) -> SavedModel:
        saved = super()._saved()
        saved.regressor = self.parts_
        return saved

    def set_parts(self, saved: SavedModel) -> None:
        """Take the fitted parts of a model file."""
        super().set_parts(saved)
        assert saved.regressor is not None
        self.ns_layer_ = saved.regressor.ns_layer
        self.coef_, self.intercept_ = saved.regressor.coef, saved.regressor.intercept


def _as_classes(target: NDArray[np.float64]) -> NDArray[np.intp]:
    """Numbers as classes: their own, or ranges that hold about as many samples each."""
    at_most = min(100, max(2, len(target) // 4))
    values, classes = np.unique(target, return_inverse=True)
    if len(values) <= at_most:
        return classes
    edges = np.quantile(target, np.linspace(0, 1, at_most + 1)[1:-1])
    return np.unique(np.searchsorted(edges, target), return_inverse=True)[1]
