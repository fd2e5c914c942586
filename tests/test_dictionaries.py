"""Classifiers of vectors by sparse codes: what their mathematics promises."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from midfea.baselines.random_faces import RandomFaces
from midfea.baselines.src import SRC
from midfea.progress import reporting_to

N_CLASSES, PER_CLASS, DIM = 5, 8, 40


@parametrize_with_checks([SRC(n_jobs=1), RandomFaces(n_components=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def subspaces():
    """Training and new samples, each class on a plane of its own: what sparse codes assume."""
    rng = np.random.RandomState(0)
    planes = rng.normal(size=(N_CLASSES, 2, DIM))

    def draw(n):
        y = np.repeat(np.arange(N_CLASSES), n)
        weights = rng.uniform(0.2, 1, size=(len(y), 1, 2))
        X = (weights @ planes[y])[:, 0] + 0.05 * rng.normal(size=(len(y), DIM))
        return X, y

    return *draw(PER_CLASS), *draw(4)


def test_src_recovers_a_planted_subject(subspaces):
    X, y, new, labels = subspaces
    model = SRC().fit(X, y)
    np.testing.assert_array_equal(model.predict(new), labels)
    assert (model.concentration(new) > 0.7).all()


def test_src_rejects_noise(subspaces):
    X, y, new, labels = subspaces
    noise = np.random.RandomState(1).normal(size=(20, DIM))
    names = np.array(["a", "b", "c", "d", "e"])
    model = SRC(reject=0.6).fit(X, names[y])
    np.testing.assert_array_equal(model.predict(new), names[labels])
    assert (model.predict(noise) == "").mean() >= 0.9
    numbers = clone(model).fit(X, y)
    assert (numbers.predict(noise) == -1).mean() >= 0.9
    assert set(numbers.set_params(rejected_label=99, reject=1.0).predict(noise)) == {99}
    with pytest.raises(ValueError, match="rejected_label=3 is one of the classes"):
        SRC(reject=0.5, rejected_label=3).fit(X, y)


def test_src_concentration_is_one_for_a_training_sample_alone():
    model = SRC().fit(np.eye(4), [0, 0, 1, 1])
    np.testing.assert_allclose(model.concentration([[3.0, 0, 0, 0], [1, 0, 1, 0]]), [1, 0], atol=1e-9)
    assert model.concentration(np.zeros((1, 4))) == [0]
    # The code of a training sample is 1 - penalty times that sample.
    np.testing.assert_allclose(model.residuals([[3.0, 0, 0, 0]]), [[0.01, 1]], atol=1e-9)


def test_src_does_not_depend_on_lengths_nor_on_order(subspaces):
    X, y, new, _ = subspaces
    rng = np.random.RandomState(2)
    order = rng.permutation(len(X))
    scaled = X * rng.uniform(0.1, 1e6, size=(len(X), 1))
    expected = SRC().fit(X, y).residuals(new)
    np.testing.assert_allclose(
        SRC().fit(scaled[order], y[order]).residuals(7 * new), expected, atol=1e-6
    )


def test_random_faces_are_gaussian_and_fixed_by_the_seed():
    X = np.random.RandomState(0).normal(size=(6, 500))
    faces = RandomFaces(n_components=200, random_state=1).fit(X)
    np.testing.assert_allclose(np.linalg.norm(faces.components_, axis=1), 1)
    assert abs(faces.components_.mean() * 500**0.5) < 0.02
    np.testing.assert_allclose(faces.transform(X), X @ faces.components_.T)
    np.testing.assert_array_equal(clone(faces).fit_transform(X), faces.transform(X))
    assert faces.transform(X.astype(np.float32)).dtype == np.float32
    assert list(faces.get_feature_names_out()[:2]) == ["randomfaces0", "randomfaces1"]


MODELS = [SRC()]
ids = [type(model).__name__ for model in MODELS]


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_pickle_and_threads(subspaces, model):
    X, y, new, _ = subspaces
    model = clone(model).set_params(n_jobs=1).fit(X, y)
    again = clone(model).set_params(n_jobs=3).fit(X, y)
    for name in ("dictionary_", "gram_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_limits(subspaces, model):
    X, y, new, _ = subspaces
    name = type(model).__name__
    with pytest.raises(MemoryError, match=f"{name} needs about .* MB, memory_limit allows 0 MB"):
        clone(model).set_params(memory_limit=1000).fit(X, y)
    with pytest.raises(TimeoutError, match=f"{name} took longer than time_limit=1e-09 s"):
        clone(model).set_params(time_limit=1e-9).fit(X, y).predict(new)


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_progress_is_reported(subspaces, model):
    X, y, new, _ = subspaces
    steps = []
    with reporting_to(lambda what, done, total: steps.append((what, done, total))):
        clone(model).fit(X, y).predict(new)
    assert steps
    assert all(type(model).__name__ in what or done <= total for what, done, total in steps)


def test_grid_search(subspaces):
    X, y, _, _ = subspaces
    search = GridSearchCV(SRC(n_jobs=1), {"penalty": [0.01, 0.1]}, cv=2).fit(X, y)
    assert search.best_score_ == 1


def test_labels_that_cannot_be_used(subspaces):
    X, y, _, _ = subspaces
    mixed = np.array([0, "one"] * (len(y) // 2), dtype=object)
    with pytest.raises(ValueError, match=r"different types cannot be sorted \(int, str\)"):
        SRC().fit(X, mixed)
    with pytest.raises(ValueError, match="samples of 2 classes or more are needed, got 1 class"):
        SRC().fit(X, np.zeros(len(y)))
