"""The neuron-selectivity layer inside the classifier, the regressor and model files."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import midfea
from midfea import MidFeaClassifier, MidFeaRegressor, NeuronSelectivity
from midfea.model_file import ModelFileError
from small import SMALL_FAST as SMALL


@pytest.fixture(scope="module")
def classifier(surfaces):
    return MidFeaClassifier(**SMALL, selectivity=6).fit(*surfaces)


def test_classifies_by_neurons(classifier, surfaces):
    assert classifier.coef_.shape == (3, 6)
    assert classifier.ns_layer_.class_responses.shape == (6, 3)
    assert classifier.score(*surfaces) > 0.9
    served = set(classifier.ns_layer_.class_responses.argmax(axis=1))
    assert served == {0, 1, 2}


def test_held_out_accuracy_does_not_know_the_labels():
    """On labels that mean nothing it must be near chance, though the layer can learn them by heart."""
    rng = np.random.RandomState(0)
    images = rng.randint(0, 256, (60, 24, 24)).astype(np.uint8)
    labels = rng.permutation(np.arange(60) % 3)
    layer = NeuronSelectivity(3, length=16)
    model = MidFeaClassifier(**SMALL, selectivity=layer).fit(images, labels)
    assert model.score(images, labels) > 0.9
    assert model.validation_.accuracy < 0.6


@pytest.mark.parametrize("selectivity", [4, NeuronSelectivity(6, gamma=1.0, max_iter=2)])
def test_saved_and_loaded(surfaces, tmp_path, selectivity):
    model = MidFeaClassifier(**SMALL, selectivity=selectivity).fit(*surfaces)
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    np.testing.assert_array_equal(again.predict_proba(surfaces[0]), model.predict_proba(surfaces[0]))
    np.testing.assert_array_equal(again.ns_layer_.D, model.ns_layer_.D)
    if isinstance(selectivity, NeuronSelectivity):
        assert again.selectivity.get_params() == selectivity.get_params()
    refitted = clone(again).fit(*surfaces)
    np.testing.assert_array_equal(refitted.coef_, model.coef_)


def test_its_parameters_can_be_searched(surfaces):
    model = MidFeaClassifier(**SMALL, selectivity=NeuronSelectivity(6))
    search = GridSearchCV(model, {"selectivity__gamma": [0.5, 2.0]}, cv=2).fit(*surfaces)
    assert search.best_score_ > 0.5


@pytest.mark.parametrize("regression", ["ridge", "expectation"])
def test_regression_through_neurons(surfaces, tmp_path, regression):
    images, labels = surfaces
    y = np.searchsorted(np.unique(labels), labels) * 10.0
    model = MidFeaRegressor(**SMALL, selectivity=6, regression=regression).fit(images, y)
    assert np.abs(model.predict(images) - y).mean() < 5
    model.save(tmp_path / "m.midfea")
    np.testing.assert_array_equal(
        midfea.load(tmp_path / "m.midfea").predict(images), model.predict(images)
    )


def test_many_different_numbers_become_ranges(surfaces):
    y = np.random.RandomState(0).rand(36)
    model = MidFeaRegressor(**SMALL, selectivity=4, regression="expectation").fit(surfaces[0], y)
    predicted = model.predict(surfaces[0])
    assert (y.min() <= predicted).all()
    assert (predicted <= y.max()).all()


def test_expectation_needs_neurons(surfaces):
    with pytest.raises(ValueError, match="needs neurons"):
        MidFeaRegressor(**SMALL, regression="expectation").fit(surfaces[0], np.arange(36.0))


def test_wrong_number_of_neurons(surfaces):
    with pytest.raises(ValueError, match="n_neurons"):
        MidFeaClassifier(**SMALL, selectivity=0).fit(*surfaces)


def test_layers_that_do_not_fit_are_refused(classifier, tmp_path):
    path = tmp_path / "m.midfea"
    broken = copy(classifier)
    broken.ns_layer_ = replace(classifier.ns_layer_, W=classifier.ns_layer_.W[:, :-1])
    broken.save(path)
    with pytest.raises(ModelFileError, match="W has shape"):
        midfea.load(path)
