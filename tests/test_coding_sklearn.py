"""scikit-learn's own checks of the pyramid of coded SIFT descriptors and its classifiers."""

from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.kspm import KSPM
from midfea.baselines.llc import LLC
from midfea.baselines.pyramid import SpatialPyramid
from midfea.baselines.scspm import ScSPM
from test_sklearn_checks import LEFT_OUT, FromTables


class TablePyramid(FromTables, SpatialPyramid):
    def transform(self, X):
        check_is_fitted(self)
        return super().transform(self._fold(X, reset=False))


class Predicts(FromTables):
    def predict(self, X):
        check_is_fitted(self)
        return super().predict(self._fold(X, reset=False))

    def decision_function(self, X):
        check_is_fitted(self)
        return super().decision_function(self._fold(X, reset=False))


class TableKSPM(Predicts, KSPM):
    pass


class TableLLC(Predicts, LLC):
    pass


class TableScSPM(Predicts, ScSPM):
    pass


SMALL = {"n_words": 5, "patch_sizes": (6,), "step": 2, "n_samples": 300, "n_jobs": 1}


def left_out(estimator):
    return {name: reason for name, reason in LEFT_OUT.items() if name in NOT_PASSED[type(estimator)]}


NOT_PASSED = {
    TablePyramid: (),
    TableKSPM: ("check_classifiers_train",),
    TableLLC: ("check_classifiers_train",),
    TableScSPM: ("check_classifiers_train", "check_fit2d_1feature"),
}


@parametrize_with_checks(
    [
        TablePyramid(**SMALL),
        TableKSPM(**SMALL, C=1.0),
        TableLLC(**SMALL, C=1.0),
        TableScSPM(**SMALL, C=1.0, n_rounds=2),
    ],
    expected_failed_checks=left_out,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
