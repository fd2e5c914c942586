"""KSPM, LLC and ScSPM: their codes solve their problems, and are pooled as written."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from midfea import stages
from midfea.baselines.coders import (
    HardWords,
    LocalCodes,
    SparseCodes,
    finest_cells,
    pool_maxima,
)
from midfea.baselines.dictionary import learn_dictionary, update_atoms
from midfea.baselines.kspm import KSPM, fit_intersection_svm, intersection_kernel
from midfea.baselines.limits import Deadline
from midfea.baselines.llc import LLC
from midfea.baselines.pyramid import SpatialPyramid
from midfea.baselines.scspm import ScSPM
from midfea.datasets import load_surfaces
from midfea.learning.folds import make_folds
from midfea.pictures.images import ImageError

CLASSIFIERS = [
    KSPM(n_words=30, n_samples=3000, n_jobs=1, random_state=0),
    LLC(n_words=40, n_samples=3000, n_jobs=1, random_state=0),
    LLC(n_words=40, patch_sizes=(16,), step=6, n_components=300, n_samples=3000, random_state=0),
    ScSPM(n_words=40, n_candidates=20, n_samples=1000, n_rounds=5, n_jobs=1, random_state=0),
]
ids = ["KSPM", "LLC", "LLC projected", "ScSPM"]


@pytest.fixture(scope="module")
def data():
    return load_surfaces(n_per_class=8, size=64, random_state=0)


@pytest.fixture
def descriptors():
    points = np.abs(np.random.RandomState(0).normal(size=(60, 12))).astype(np.float32)
    return stages.unit_length(points)


@pytest.fixture
def words():
    points = np.abs(np.random.RandomState(1).normal(size=(20, 12))).astype(np.float32)
    return stages.unit_length(points)


@pytest.fixture
def places():
    return np.random.RandomState(2).uniform(0, [30, 50], (60, 2)).astype(np.float32)


def pooled(coder, descriptors, cells):
    return coder.pool(coder.codes(descriptors), cells)


def in_cells(places, shape):
    """For each of the 21 cells, level by level and row by row, which places lie in it."""
    for n in (1, 2, 4):
        row, column = np.floor(places * n / shape).astype(int).T
        for r in range(n):
            for c in range(n):
                yield (row == r) & (column == c)


# -- pooling ----------------------------------------------------------------------------------------


def test_maxima_of_all_levels_keep_their_sign(places):
    codes = np.random.RandomState(0).normal(-1, 1, (60, 7))
    maxima = pool_maxima(codes, finest_cells(places, (30, 50))).reshape(21, 7)
    expected = [codes[inside].max(axis=0) for inside in in_cells(places, (30, 50))]
    np.testing.assert_allclose(maxima, expected, rtol=1e-6)
    assert maxima.min() < 0


def test_an_empty_cell_is_zero_and_does_not_hide_a_negative_maximum():
    maxima = pool_maxima(np.array([[-2.0], [-3.0]]), np.array([0, 1])).ravel()
    assert maxima[:6].tolist() == [-2, -2, 0, 0, 0, -2]
    assert maxima[6] == -3
    assert not maxima[7:].any()


def test_histograms_count_the_nearest_words_and_sum_to_one(descriptors, words, places):
    feature = pooled(HardWords(words), descriptors, finest_cells(places, (30, 50)))
    nearest = stages.quantize(descriptors, words)
    weights = [0.25] + 4 * [0.25] + 16 * [0.5]
    expected = [
        weight * np.bincount(nearest[inside], minlength=20) / 60
        for weight, inside in zip(weights, in_cells(places, (30, 50)), strict=True)
    ]
    np.testing.assert_allclose(feature.reshape(21, 20), expected, atol=1e-7)
    assert feature.sum() == pytest.approx(1)


# -- LLC --------------------------------------------------------------------------------------------


def test_llc_codes_solve_their_problem(descriptors, words):
    """Minimum of |x - B^T c|^2 + beta trace |c|^2 for sum 1: the gradient has equal entries."""
    beta, coder = 0.01, LocalCodes(words, 5, beta=0.01)
    everywhere = np.arange(1)
    for x in descriptors:
        code = pooled(coder, x[None], everywhere)[:20]  # the whole image, which is one descriptor
        near = np.argsort(np.linalg.norm(words - x, axis=1))[:5]
        assert set(np.flatnonzero(code)) <= set(near)
        assert code.sum() == pytest.approx(1, abs=1e-5)
        B = words[near].astype(float)
        trace = np.square(B - x).sum()
        gradient = B @ (B.T @ code[near] - x) + beta * trace * code[near]
        np.testing.assert_allclose(gradient, gradient.mean(), atol=1e-4)


def test_llc_is_pooled_by_the_largest_weight(descriptors, words, places):
    feature = pooled(LocalCodes(words, 5, 1e-4), descriptors, finest_cells(places, (30, 50)))
    near, weights = stages.llc_codes(descriptors, words, 5)
    codes = np.zeros((60, 20))
    np.put_along_axis(codes, near.astype(int), weights, axis=1)
    expected = [
        codes[inside].max(axis=0) if inside.any() else np.zeros(20)
        for inside in in_cells(places, (30, 50))
    ]
    np.testing.assert_allclose(feature.reshape(21, 20), expected, atol=1e-4)


# -- ScSPM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_candidates", [None, 6])
def test_sparse_codes_are_optimal_among_their_candidates(descriptors, words, n_candidates):
    coder = SparseCodes(words, 0.15, n_candidates)
    for x, code in zip(descriptors, coder.codes(descriptors), strict=True):
        order = np.argsort(-np.abs(words @ x))
        allowed, left_out = order[:n_candidates], order[len(order[:n_candidates]) :]
        assert not code[left_out].any()
        rest = (words @ (x - code @ words))[allowed]
        used = code[allowed] != 0
        np.testing.assert_allclose(rest[used], 0.15 * np.sign(code[allowed][used]), atol=1e-4)
        assert np.abs(rest).max() <= 0.15 + 1e-4


def test_sparse_codes_are_pooled_by_absolute_value(descriptors, words, places):
    coder = SparseCodes(words, 0.01, None)
    codes = coder.codes(descriptors)
    feature = pooled(coder, descriptors, finest_cells(places, (30, 50)))
    expected = [
        np.abs(codes[inside]).max(axis=0) if inside.any() else np.zeros(20)
        for inside in in_cells(places, (30, 50))
    ]
    np.testing.assert_allclose(feature.reshape(21, 20), expected, atol=1e-6)
    assert codes.min() < 0


def test_the_dictionary_lowers_its_objective(descriptors):
    rng = np.random.RandomState(0)
    atoms, objective = learn_dictionary(descriptors, 15, 0.1, max_iter=20, random_state=rng)
    assert (np.diff(objective) <= 1e-9).all()
    assert objective[-1] < 0.95 * objective[0]
    assert np.linalg.norm(atoms, axis=1).max() <= 1 + 1e-9


def test_atoms_are_the_best_for_their_codes(descriptors):
    """After enough sweeps no atom can be bettered: a projected gradient step changes nothing."""
    rng = np.random.RandomState(0)
    codes, atoms = rng.normal(size=(60, 5)), rng.normal(size=(5, 12))
    codes[:, 4] = 0
    before = atoms[4].copy()
    squares, sums = codes.T @ codes, codes.T @ descriptors
    for _ in range(200):
        update_atoms(atoms, squares, sums)
    np.testing.assert_array_equal(atoms[4], before)  # no code uses it
    stepped = (atoms + 1e-3 * (sums - squares @ atoms))[:4]
    stepped /= np.maximum(np.linalg.norm(stepped, axis=1, keepdims=True), 1)
    np.testing.assert_allclose(stepped, atoms[:4], atol=1e-6)


def test_samples_too_few_or_zero_are_refused():
    samples = np.vstack([np.eye(4), np.zeros((10, 4))])
    with pytest.raises(ValueError, match="5 atoms cannot be learned from 4 samples"):
        learn_dictionary(samples, 5, 0.1, random_state=np.random.RandomState(0))


# -- KSPM -------------------------------------------------------------------------------------------


@pytest.fixture
def histograms():
    rows = np.random.RandomState(0).dirichlet(np.full(30, 0.3), 40)
    return rows.astype(np.float32)


def test_intersection_kernel(histograms):
    kernel = intersection_kernel(histograms, histograms[:33], threads=2)
    expected = np.minimum(histograms[:, None], histograms[:33]).sum(axis=2)
    np.testing.assert_allclose(kernel, expected, atol=1e-6)
    whole = intersection_kernel(histograms, histograms).astype(float)
    np.testing.assert_array_equal(whole, whole.T)
    assert np.linalg.eigvalsh(whole).min() > -1e-5
    np.testing.assert_allclose(np.diag(whole), 1, atol=1e-6)


def test_intersection_svm_meets_the_conditions_of_its_dual(histograms):
    """0 <= a <= C for each machine; outside the margin a is 0, inside it C."""
    y = np.arange(40) % 3
    svm = fit_intersection_svm(histograms, y, (5.0,), make_folds(y, 3, 0), 1, Deadline(None, "SVM"))
    signs = np.where(y[:, None] == np.arange(3), 1, -1)
    margins = signs * svm.scores(histograms)
    a = np.zeros((40, 3))
    rows = [int(np.flatnonzero((histograms == sample).all(axis=1))[0]) for sample in svm.samples]
    a[rows] = signs[rows] * svm.coef
    assert a.min() >= -1e-6
    assert a.max() <= 5 + 1e-5
    assert (a[margins > 1.01] < 1e-6).all()
    np.testing.assert_allclose(a[margins < 0.99], 5, atol=1e-4)


# -- the estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", CLASSIFIERS, ids=ids)
def test_classifiers(model, data):
    names = np.array(data.target_names)[data.target]
    fitted = clone(model).fit(data.images, names)
    predicted = fitted.predict(data.images)
    assert np.mean(predicted == names) > 0.8
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(data.images), predicted)
    again = clone(model).set_params(n_jobs=3).fit(data.images, names)
    np.testing.assert_array_equal(again.pyramid_.words_, fitted.pyramid_.words_)
    some = data.images[:10]
    features = fitted.pyramid_.transform(some)
    np.testing.assert_array_equal(again.pyramid_.transform(some), features)
    np.testing.assert_array_equal(again.predict(data.images), predicted)
    assert features.shape == (10, model.get_params().get("n_components") or 21 * model.n_words)
    length = features.sum(axis=1) if isinstance(model, KSPM) else np.linalg.norm(features, axis=1)
    np.testing.assert_allclose(length, 1, atol=1e-5)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=ids)
def test_limits(model, data):
    few, labels = data.images[::4], data.target[::4]
    with pytest.raises(MemoryError, match="memory_limit allows"):
        clone(model).set_params(memory_limit=1000).fit(few, labels)
    with pytest.raises(TimeoutError, match=rf"{type(model).__name__} took longer than time_limit"):
        clone(model).set_params(time_limit=1e-6).fit(few, labels)


def test_two_classes_and_groups(data):
    pair = data.target < 2
    images = [image for image, wanted in zip(data.images, pair, strict=True) if wanted]
    model = KSPM(n_words=20, random_state=0)
    model.fit(images, data.target[pair], groups=np.arange(pair.sum()) // 2)
    assert model.svm_.coef.shape[1] == 1
    assert model.score(images, data.target[pair]) > 0.8


def test_transformer_in_a_pipeline_and_a_search(data):
    pyramid = SpatialPyramid(n_words=20, n_samples=2000, random_state=0)
    assert len(clone(pyramid).fit(data.images).get_feature_names_out()) == 420
    model = make_pipeline(pyramid, LinearSVC())
    search = GridSearchCV(model, {"spatialpyramid__step": [6, 12]}, cv=2).fit(data.images, data.target)
    assert search.best_score_ > 1 / 6
    search = GridSearchCV(KSPM(n_words=20, random_state=0), {"C": [1.0, 10.0]}, cv=2)
    assert search.fit(data.images, data.target).best_score_ > 1 / 6


def test_numbers_with_white_at_one_are_the_same_image(data):
    pyramid = SpatialPyramid(n_words=20, n_samples=2000, random_state=0).fit(data.images)
    images = data.images[:5].copy()
    images[:, 0, 0] = 255
    from_floats = pyramid.transform(list(images / 255))
    np.testing.assert_allclose(from_floats, pyramid.transform(images), atol=1e-3)


def test_patches_that_do_not_fit_are_left_out():
    images = [np.random.RandomState(i).randint(0, 256, (20, 40)) for i in range(4)]
    pyramid = SpatialPyramid(n_words=5, patch_sizes=(16, 31), random_state=0).fit(images)
    descriptors, _ = pyramid.describe(images[0])
    assert len(descriptors) == 1 * 5
    with pytest.raises(ValueError, match="at least 16x16 are needed"):
        pyramid.transform([np.zeros((10, 40))])


def test_errors_say_what_to_do(data):
    with pytest.raises(ValueError, match="patch_sizes must be whole numbers, 4 or more"):
        LLC(patch_sizes=(2,)).fit(data.images, data.target)
    with pytest.raises(ValueError, match="'penalty' parameter"):
        ScSPM(penalty=0.0).fit(data.images, data.target)
    with pytest.raises(ValueError, match="two classes or more are needed"):
        KSPM().fit(data.images, np.zeros(len(data.images)))
    with pytest.raises(ValueError, match="give one label for each image"):
        KSPM().fit(data.images, data.target[:-1])
    with pytest.raises(ImageError, match="no such file"):
        KSPM().fit(["missing.png"], [0])
