"""scikit-learn's own checks.

They feed tables (n, p) of numbers, which are not images, and pass over estimators that do not take
tables. So each estimator is checked through a subclass that folds every row of a table into a small
image. What is left out is named below with the reason.
"""

import numpy as np
import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from midfea import MidFea, MidFeaClassifier, MidFeaRegressor


class FromTables:
    """Takes tables: a row becomes the pixels of a 12x12 image, repeated as often as needed."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = False
        tags.input_tags.string = False
        return tags

    def _fold(self, table, reset):
        table = validate_data(self, table, reset=reset, dtype=np.float64)
        return np.stack([np.resize(row, (12, 12)) for row in table])

    def fit(self, X, y=None):
        return super().fit(self._fold(X, reset=True), y)


class TableMidFea(FromTables, MidFea):
    def transform(self, X):
        check_is_fitted(self)
        return super().transform(self._fold(X, reset=False))


class TableClassifier(FromTables, MidFeaClassifier):
    def decision_function(self, X):
        check_is_fitted(self)
        return super().decision_function(self._fold(X, reset=False))

    def predict(self, X):
        check_is_fitted(self)
        return super().predict(self._fold(X, reset=False))

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self._fold(X, reset=False))


class TableRegressor(FromTables, MidFeaRegressor):
    def predict(self, X):
        check_is_fitted(self)
        return super().predict(self._fold(X, reset=False))


SMALL = {
    "n_filters": 3,
    "filter_size": 3,
    "n_words": 5,
    "n_samples": 500,
    "projection": None,
    "n_jobs": 1,
}


CONTRAST_ONLY = (
    "asks for a good fit to points in a plane; folded into images they differ in brightness and "
    "contrast, which the features ignore by design"
)
LEFT_OUT = {
    "check_fit2d_1feature": "a single column folds into constant images, which are refused as such",
    "check_classifiers_train": CONTRAST_ONLY,
    "check_regressors_train": CONTRAST_ONLY,
}


def left_out(estimator):
    return LEFT_OUT


@parametrize_with_checks(
    [TableMidFea(**SMALL), TableClassifier(**SMALL), TableRegressor(**SMALL)],
    expected_failed_checks=left_out,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [MidFea(), MidFeaClassifier(), MidFeaRegressor()])
def test_tags_say_images(estimator):
    tags = get_tags(estimator)
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.two_d_array
