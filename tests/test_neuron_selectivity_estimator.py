"""`NeuronSelectivity` as an estimator: conventions, shapes, warm start, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from midfea.estimators.neuron_selectivity import (
    NeuronSelectivity,
    responses_order,
)
from midfea.parallel import linear_algebra_threads
from test_neuron_selectivity import problem


@parametrize_with_checks([NeuronSelectivity()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def blobs(n_classes=4, n=6, p=15, seed=0):
    X, y, _ = problem(seed, p=p, counts=(n,) * n_classes)
    return X.T.copy(), y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["proximal", "by class", "plain"])
@pytest.mark.parametrize("init", ["kmeans", "similarity", "random"])
def test_float_type_is_kept(dtype, solver, init):
    X, y = blobs()
    X = X.astype(dtype)
    options = {"solver": solver, "init": init, "max_iter": 2, "alpha": np.float64(0.9)}
    model = NeuronSelectivity(5, random_state=0, **options).fit(X, y)
    h = model.transform(X)
    for array in (h, model.W_, model.b_, model.D_, model.H_, model.inverse_transform(h)):
        assert array.dtype == dtype


def test_shapes_and_decoder():
    X, y = blobs()
    model = NeuronSelectivity(7, random_state=0).fit(X, y)
    h = model.transform(X)
    assert model.W_.shape == (7, 15)
    assert model.D_.shape == (15, 7)
    assert model.H_.shape == (7, 24)
    assert_allclose(h, expit(X @ model.W_.T + model.b_), atol=1e-12)
    assert_allclose(model.inverse_transform(h), h @ model.D_.T / model.scale_ + model.mean_)
    assert_allclose(model.class_responses_[:, 1], h[y == 1].mean(axis=0))
    assert len(model.get_feature_names_out()) == 7
    with pytest.raises(ValueError, match="7 neurons expected, got 6"):
        model.inverse_transform(h[:, :6])


def test_neurons_sorted_by_class():
    X, y = blobs()
    model = NeuronSelectivity(8, random_state=0).fit(X, y)
    order = responses_order(model)
    assert sorted(order) == list(range(8))
    assert (np.diff(model.class_responses_[order].argmax(axis=1)) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_seed_same_layer_whatever_the_order_of_samples_and_the_threads(dtype):
    X, y = blobs(n_classes=20, n=12, p=80)
    X = X.astype(dtype)
    order = np.random.RandomState(0).permutation(len(y))
    layers = []
    for n_threads, rows in ((1, slice(None)), (2, slice(None)), (1, order)):
        with linear_algebra_threads(n_threads):
            layers.append(NeuronSelectivity(40, random_state=1).fit(X[rows], y[rows]))
    one, two, shuffled = layers
    for name in ("W_", "b_", "D_", "H_", "objective_"):
        assert_array_equal(getattr(two, name), getattr(one, name))
    assert_array_equal(shuffled.W_, one.W_)
    assert_array_equal(shuffled.H_, one.H_[:, order])


def test_warm_start_goes_on():
    X, y = blobs()
    model = NeuronSelectivity(6, warm_start=True, max_iter=2, tol=0, random_state=0).fit(X, y)
    reached = model.objective_[-1]
    model.fit(X, y)
    assert model.objective_[0] <= reached
    model.fit(X[:20], y[:20])  # other samples: codes from the encoder
    assert model.H_.shape == (6, 20)


def test_stops_by_tolerance_and_calls_back():
    X, y = blobs()
    seen = []

    def callback(n, terms):
        seen.append((n, sum(terms.values())))

    model = NeuronSelectivity(4, max_iter=100, tol=1e-2, random_state=0, callback=callback)
    model.fit(X, y)
    assert model.n_iter_ < 100
    assert [n for n, _ in seen] == list(range(1, model.n_iter_ + 1))
    assert_allclose([value for _, value in seen], model.objective_)


def faint_classes(seed=0):
    """50 classes of 6 samples in 60 dimensions, with more noise than class."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(50), 6)
    return rng.normal(size=(50, 60))[y] + 0.8 * rng.normal(size=(300, 60)), y


@pytest.mark.parametrize("seed", range(2))
def test_a_random_start_ends_as_low_as_one_from_kmeans(seed):
    """The paper: it takes more time and is not inferior. No neuron of a class may stay silent."""
    X, y = faint_classes(seed)
    of_kmeans, of_random = (
        NeuronSelectivity(100, init=init, random_state=seed).fit(X, y) for init in ("kmeans", "random")
    )
    assert of_random.objective_[-1] < 1.02 * of_kmeans.objective_[-1]
    fires = of_random.H_.any(axis=0)
    assert fires.mean() > 0.95


def test_one_class():
    X, _ = blobs()
    model = NeuronSelectivity(3, random_state=0).fit(X, np.zeros(len(X)))
    assert model.class_responses_.shape == (3, 1)
    assert model.objective_terms_["separation"][-1] < 1e-9


def test_class_of_one_sample():
    X, y = blobs()
    y[-1] = 9
    model = NeuronSelectivity(10, random_state=0).fit(X, y)  # two neurons for its one sample
    assert model.class_responses_.shape == (10, 5)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.filterwarnings("ignore:the codes have collapsed")
@pytest.mark.parametrize("init", ["kmeans", "similarity", "random"])
def test_fewer_neurons_than_classes(init):
    X, y = blobs(n_classes=6)
    model = NeuronSelectivity(2, init=init, random_state=0).fit(X, y)
    assert model.transform(X).shape == (36, 2)
    assert (np.diff(model.objective_) <= 0).all()


def test_not_a_number_is_refused():
    X, y = blobs()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        NeuronSelectivity().fit(X, y)


@pytest.mark.filterwarnings("ignore:the codes have collapsed")
@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("init", ["kmeans", "similarity", "random"])
def test_constant_features(value, init):
    _, y = blobs()
    X = np.full((24, 15), value)
    model = NeuronSelectivity(5, init=init, random_state=0).fit(X, y)
    assert np.isfinite(model.transform(X)).all()
    assert_allclose(np.linalg.norm(model.D_, axis=0), 1, atol=1e-6)


def test_one_dimensional_features_are_refused():
    _, y = blobs()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        NeuronSelectivity().fit(np.arange(24.0), y)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_neurons", 0), ("n_neurons", 2.5), ("alpha", -1), ("init", "zeros"), ("solver", "sgd"),
     ("max_iter", 0), ("tol", float("nan")), ("ridge", -1), ("ridge", "best"), ("n_neurons", True)],
)  # fmt: skip
def test_wrong_parameters_are_named(name, value):
    X, y = blobs()
    with pytest.raises(ValueError, match=name):
        NeuronSelectivity(**{name: value}).fit(X, y)


@pytest.mark.parametrize("labels", [[1, "a"], ["a", 1], [None, "a"]])
def test_labels_of_different_types_are_refused(labels):
    X, y = blobs(n_classes=2)
    with pytest.raises(ValueError, match="labels of different types"):
        NeuronSelectivity().fit(X, np.array(labels, dtype=object)[y])


@pytest.mark.parametrize(
    ("dtype", "size"),
    [*((np.float32, size) for size in (4, 16, 1000, 1e20, 1e-20)), (np.float64, 1e200)],
)
def test_the_unit_of_the_samples_does_not_matter(dtype, size):
    X, y = blobs()
    X = X.astype(dtype)
    one, other = (NeuronSelectivity(8, random_state=0).fit(unit * X, y) for unit in (1, dtype(size)))
    h, g = one.transform(X), other.transform(dtype(size) * X)
    assert_allclose(g, h, atol=5e-3 if dtype == np.float32 else 1e-9)
    assert_allclose(other.objective_[-1], one.objective_[-1], rtol=1e-3)
    again = one.inverse_transform(h), other.inverse_transform(g) / dtype(size)
    assert_allclose(again[1], again[0], atol=1e-2)


def test_standardised_samples_have_the_length_asked_for():
    X, y = blobs()
    for center, length in ((True, 1), (True, 16), (False, 4)):
        model = NeuronSelectivity(8, center=center, length=length, random_state=0).fit(3 * X + 1, y)
        inside = (3 * X + 1 - model.mean_) * model.scale_
        assert np.square(inside).sum(axis=1).mean() ** 0.5 == pytest.approx(length)
        assert (np.abs(inside.mean(axis=0)).max() < 1e-9) == center
        # The same encoder, before centre and scale were made part of it.
        W, b = model.W_ / model.scale_, model.b_ + model.W_ @ model.mean_
        assert_allclose(model.transform(3 * X + 1), expit(inside @ W.T + b), atol=1e-9)


def test_samples_that_cannot_be_standardised_are_refused():
    X, y = blobs()
    with pytest.raises(ValueError, match="too small or too large for float32"):
        NeuronSelectivity().fit((X * 1e-40).astype(np.float32), y)


def test_collapsed_codes_are_reported():
    X, y = blobs()
    with pytest.warns(ConvergenceWarning, match="no neuron fires for 4 of 4 classes"):
        NeuronSelectivity(lam=50, random_state=0).fit(X, y)


def test_analytic_decoder_never_raises_the_objective():
    X, y = faint_classes()
    model = NeuronSelectivity(100, decoder="analytic", random_state=0).fit(X, y)
    assert (np.diff(model.objective_) <= 0).all()
    assert_allclose(np.linalg.norm(model.D_, axis=0), 1)


@pytest.mark.parametrize("solver", ["proximal", "by class", "plain"])
@pytest.mark.parametrize("warm", [False, True])
def test_nonnegative_codes(solver, warm):
    X, y = blobs(n_classes=6)
    model = NeuronSelectivity(8, solver=solver, warm_start=warm, random_state=0)
    if warm:
        assert (model.set_params(nonnegative=False).fit(8 * X, y).H_ < 0).any()
    model.set_params(nonnegative=NeuronSelectivity().nonnegative).fit(8 * X, y)
    assert (model.H_ >= 0).all()
    assert (model.H_ > 0).any()
