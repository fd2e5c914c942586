"""Settings of the NS layer by validation, its control, and the rows that compare them."""

from __future__ import annotations

import numpy as np
import pytest

from midfea import MidFeaClassifier, NeuronSelectivity
from midfea.estimators.ns_choice import CANDIDATES, choose_layer, clearly_better
from midfea.learning.folds import make_folds
from midfea.reproduce.evaluate import evaluate_classes, one_vs_one
from midfea.reproduce.features import randomly_projected
from midfea.reproduce.protocols import PROTOCOLS, Method
from midfea.reproduce.results import verdict
from midfea.reproduce.run import paired_t
from midfea.reproduce.subclasses import subclass_layer, subclasses
from small import SMALL_FAST


def classes(n_classes=6, n=12, p=30, noise=1.0, seed=0):
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(n_classes), n)
    x = rng.normal(size=(n_classes, p))[y] + noise * rng.normal(size=(len(y), p))
    return x.astype(np.float32), y


def test_a_clearly_better_candidate_is_chosen_and_no_other():
    x, y = classes()
    folds = make_folds(y, 3, 0)
    silent, usual = {"lam": 50.0}, {"lam": 0.8}
    chosen = choose_layer((6,), x, y, folds, candidates=(silent, usual), random_state=0)  # collapses
    assert chosen.layer.get_params() == NeuronSelectivity(6, lam=0.8).get_params()
    hardly_other = {"lam": 0.81}
    chosen = choose_layer((6,), x, y, folds, candidates=(usual, hardly_other), random_state=0)
    assert chosen.layer.lam == 0.8
    # A layer whose only neuron cannot tell six classes apart.
    chosen = choose_layer((1, 6), x, y, folds, candidates=(usual,), penalties=(1.0,), random_state=0)
    assert (chosen.layer.n_neurons, chosen.C) == (6, 1.0)


def test_clearly_better_is_more_than_chance():
    old = np.zeros(100, dtype=bool)
    few, many = old.copy(), old.copy()
    few[:3], many[:5] = True, True
    assert not clearly_better(old, old)
    assert not clearly_better(few, old)
    assert clearly_better(many, old)
    assert not clearly_better(old, many)
    assert clearly_better(3.0 * many, old)  # weights of one size change nothing


def test_the_paper_is_the_first_candidate():
    layer = NeuronSelectivity()
    assert CANDIDATES[0] == {"length": layer.length, "beta": layer.beta}


def test_product_and_tables_have_one_choice(surfaces):
    images, labels = surfaces
    model = MidFeaClassifier(**SMALL_FAST, selectivity=6, keep_features=True).fit(images, labels)
    x, y = model.training_features_, np.unique(labels, return_inverse=True)[1]
    chosen = choose_layer((6,), x, y, model.validation_.folds, random_state=0).layer
    assert model.selectivity_.get_params() == chosen.get_params()
    given = NeuronSelectivity(5, length=3.0)
    model.set_params(selectivity=given).fit_head(x, labels)
    assert model.selectivity_ is given


# -- the control and the paper's classifier ---------------------------------------------------------


def test_subclasses_part_each_class():
    x, y = classes(n_classes=3)
    parts = subclasses(x, y, 2, seed=0)
    assert parts.shape == (6, len(y))
    assert (parts.sum(axis=0) == 1).all()
    for row, label in zip(parts, np.repeat(np.arange(3), 2), strict=True):
        assert set(y[row == 1]) == {label}


def test_control_learns_probabilities_of_its_subclasses():
    x, y = classes(noise=0.3)
    probabilities = subclass_layer(x, y, 1, seed=0)(x)
    assert probabilities.shape == (len(y), 6)
    assert 0 <= probabilities.min() <= probabilities.max() <= 1
    assert (probabilities.argmax(axis=1) == y).all()
    np.testing.assert_allclose(subclass_layer(10 * x, y, 1, seed=0)(10 * x), probabilities, atol=1e-3)


def test_every_kind_of_row_predicts():
    x, y = classes(n=20, noise=0.5)
    order = np.random.RandomState(0).permutation(len(y))
    split = np.sort(order[:60]), order[60:]
    kinds = (
        Method("MidFea-NS", neurons=(1,), selectivity={"length": 1.0}),
        Method("MidFea-subclasses", neurons=(1,), subclasses=True),
        Method("one against one", one_vs_one=True),
        Method("NS, one against one", neurons=(2, 1), one_vs_one=True),
    )
    for method in kinds:
        assert evaluate_classes(x, y, None, split, method, 0)["accuracy"] > 80, method.name
    assert (one_vs_one(x, y, x) == y).all()


def test_random_projection_keeps_angles():
    x, _ = classes(p=400)
    short = randomly_projected(x, 300, seed=0)
    assert short.shape == (len(x), 300)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-5)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert np.abs(short @ short.T - unit @ unit.T).mean() < 0.1
    assert not np.array_equal(short, randomly_projected(x, 300, seed=1))


# -- rows -------------------------------------------------------------------------------------------


def test_t_of_paired_differences():
    assert paired_t([1.0, 2.0, 3.0]) == pytest.approx(2 * 3**0.5, abs=0.01)
    assert paired_t([1.0]) is None
    assert paired_t([2.0, 2.0]) is None
    row = {"metric": "accuracy", "mean": 2.0, "std": 0.8, "trials": 3, "paper": None}
    assert verdict(row | {"t": 3.46}) == "t 3.5"
    assert verdict(row | {"t": None}) == ""


@pytest.mark.parametrize("name", ["ar-face", "ar-gender", "caltech101"])
def test_whole_and_projected_features_have_the_same_rows(name):
    names = [method.name for method in PROTOCOLS[name].methods]
    assert len(set(names)) == len(names)
    for layered in (n for n in names if "-NS" in n or "-subclasses" in n):
        assert layered.replace("-NS", "").replace("-subclasses", "") in names
    size = "3000-d" if name == "caltech101" else "300-d"
    assert {f"MidFea, {size}", f"MidFea-NS, {size}", f"MidFea-subclasses, {size}"} <= set(names)
