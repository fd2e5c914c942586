"""Self-taught learning: codes are the lasso's, bases fit their samples. Raw pixels and their SVM."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from midfea import NeuronSelectivity
from midfea.baselines import FeatureSVM
from midfea.baselines.raw_pixels import RawPixels
from midfea.baselines.self_taught import SelfTaught, learn_bases, sparse_codes
from midfea.baselines.svm_raw import SVMRaw
from midfea.datasets import load_surfaces

DIGITS, LABELS = load_digits(return_X_y=True)
X, Y, OTHERS = DIGITS[:150], LABELS[:150], DIGITS[300:600]
NEW, NEW_LABELS = DIGITS[700:800], LABELS[700:800]
SETTINGS = {"n_bases": 30, "max_rounds": 5, "C": 1.0, "n_jobs": 1, "random_state": 0}
DRAWN = load_surfaces(n_per_class=6, size=48)


@pytest.fixture(scope="module")
def taught():
    return SelfTaught(**SETTINGS).fit(X, Y, unlabelled=OTHERS)


def test_codes_meet_the_optimality_conditions_of_the_lasso(taught):
    """B^T (x - B a) is penalty * sign(a) where a is not zero, and lies within +-penalty elsewhere."""
    codes = taught.transform(NEW)
    pull = (NEW / taught.scale_ - codes @ taught.bases_) @ taught.bases_.T
    used = codes != 0
    assert 0 < used.mean() < 1
    np.testing.assert_allclose(pull[used], taught.penalty * np.sign(codes[used]), atol=1e-5)
    assert (np.abs(pull[~used]) <= taught.penalty * (1 + 1e-5)).all()


def test_bases_have_length_one_at_most_and_fit_their_samples(taught):
    lengths = np.linalg.norm(taught.bases_, axis=1)
    assert taught.bases_.shape == (30, 64)
    assert (lengths <= 1 + 1e-9).all()
    random = learn_bases(OTHERS[:0], 30, 0.15, np.random.RandomState(0))
    np.testing.assert_allclose(np.linalg.norm(random, axis=1), 1)

    def objective(bases):
        samples = OTHERS / taught.scale_
        codes = sparse_codes(samples, bases, taught.penalty)
        return np.square(samples - codes @ bases).sum() / 2 + taught.penalty * np.abs(codes).sum()

    assert objective(taught.bases_) < 0.7 * objective(random)


def test_without_unlabelled_samples_the_bases_are_random(taught):
    model = SelfTaught(**SETTINGS).fit(X, Y)
    np.testing.assert_allclose(np.linalg.norm(model.bases_, axis=1), 1)
    assert abs(model.bases_.mean()) < 0.02  # digits have no negative pixels, random bases do
    assert 0.3 < model.score(NEW, NEW_LABELS) < taught.score(NEW, NEW_LABELS)


def test_the_unit_of_the_samples_does_not_matter(taught):
    smaller = clone(taught).fit(X / 16, Y, unlabelled=OTHERS / 16)
    np.testing.assert_allclose(smaller.transform(NEW / 16), taught.transform(NEW), atol=1e-6)


def test_self_taught_is_the_same_for_any_number_of_threads_and_after_storing(taught):
    threads = clone(taught).set_params(n_jobs=3).fit(X, Y, unlabelled=OTHERS)
    np.testing.assert_array_equal(threads.bases_, taught.bases_)
    np.testing.assert_array_equal(threads.transform(NEW), taught.transform(NEW))
    stored = pickle.loads(pickle.dumps(taught))
    np.testing.assert_array_equal(stored.predict(NEW), taught.predict(NEW))


def test_self_taught_below_neuron_selectivity(taught):
    layered = make_pipeline(
        clone(taught), StandardScaler(), NeuronSelectivity(random_state=0), LinearSVC(random_state=0)
    )
    layered.fit(X, Y, selftaught__unlabelled=OTHERS)
    assert layered[:-1].transform(NEW).shape == (100, 10)
    assert layered.score(NEW, NEW_LABELS) > 0.5
    assert list(taught.get_feature_names_out()[:2]) == ["selftaught0", "selftaught1"]


def test_self_taught_in_a_grid_search():
    search = GridSearchCV(SelfTaught(**SETTINGS), {"penalty": [0.05, 0.3]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.7


@pytest.mark.parametrize(
    ("settings", "unlabelled", "error", "words"),
    [
        ({}, OTHERS[:, :9], ValueError, "9 features, the labelled ones 64"),
        ({}, OTHERS[:7], ValueError, "30 atoms cannot be learned from 7 samples"),
        ({"penalty": 0}, None, ValueError, "penalty"),
        ({"memory_limit": 1000}, None, MemoryError, "memory_limit"),
        ({"time_limit": 0}, OTHERS, TimeoutError, "time_limit"),
    ],
)
def test_self_taught_says_what_is_wrong(settings, unlabelled, error, words):
    with pytest.raises(error, match=words):
        SelfTaught(**SETTINGS | settings).fit(X, Y, unlabelled=unlabelled)


@parametrize_with_checks([SelfTaught(**SETTINGS)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- raw pixels --------------------------------------------------------------------------------------


def test_raw_pixels_keep_the_image():
    images = np.random.RandomState(0).randint(256, size=(4, 6, 5)).astype(np.uint8)
    model = RawPixels(shape=None).fit(images)
    np.testing.assert_allclose(model.transform(images).reshape(4, 6, 5), images / 255, rtol=1e-6)
    assert model.get_feature_names_out().shape == (30,)


def test_svm_raw_is_the_baseline_of_every_comparison():
    of_feature = FeatureSVM("pixels", n_jobs=1).fit(DRAWN.images, DRAWN.target)
    own = SVMRaw().fit(DRAWN.images, DRAWN.target)
    np.testing.assert_array_equal(own.predict(DRAWN.images), of_feature.predict(DRAWN.images))
    stored = pickle.loads(pickle.dumps(own))
    np.testing.assert_array_equal(stored.predict(DRAWN.images), own.predict(DRAWN.images))


def test_raw_pixels_below_neuron_selectivity():
    layer = NeuronSelectivity(random_state=0)
    layered = make_pipeline(RawPixels(None), StandardScaler(), layer, LinearSVC(random_state=0))
    images = X.reshape(-1, 8, 8)
    layered.fit(images, Y)
    assert layered[:-1].transform(images).shape == (150, 10)
    assert layered.score(NEW.reshape(-1, 8, 8), NEW_LABELS) > 0.5


def test_svm_raw_in_a_grid_search():
    search = GridSearchCV(SVMRaw(C=1.0), {"shape": [None, (2, 2)]}, cv=2)
    search.fit(X.reshape(-1, 8, 8), Y)
    assert search.best_params_ == {"shape": None}


def test_svm_raw_asks_for_one_size():
    images = [np.zeros((6, 5), np.uint8), np.ones((7, 5), np.uint8)]
    with pytest.raises(ValueError, match="differ in size"):
        SVMRaw(shape=None).fit(images, [0, 1])
    fitted = SVMRaw(shape=None, C=1.0).fit(np.stack([images[0]] * 2), [0, 1])
    with pytest.raises(ValueError, match="image 0 has 7x5 pixels, expected are 6x5"):
        fitted.predict(images[1:])
