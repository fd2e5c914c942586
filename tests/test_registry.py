"""Every compared system as `midfea compare` makes it: it learns from images and names their classes."""

import pickle

import numpy as np
import pytest

from midfea.baselines.registry import SYSTEMS, fit_images
from midfea.bench.methods import TITLES, compare_methods
from midfea.cli.compare import METHODS
from midfea.datasets import load_surfaces

DRAWN = load_surfaces(n_per_class=8, size=64, random_state=0)
SMALL = {  # what makes learning quick, by parameter
    "n_words": 40,
    "n_rounds": 2,
    "n_iter": 2,
    "n_start_iter": 2,
    "sparsity": 5,
    "n_samples": 3000,
    "n_components": 20,
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_system_learns_from_images(name):
    model = SYSTEMS[name].make(0, 1)
    settings = model.get_params()
    small = {key: SMALL[key.rpartition("__")[2]] for key in settings if key.rpartition("__")[2] in SMALL}
    model.set_params(**{key: value for key, value in small.items() if settings[key] is not None})
    images, y = DRAWN.images[::2], DRAWN.target[::2]
    fit_images(model, images, y, groups=np.arange(len(y)))
    assert (model.predict(images) == y).mean() > 0.5
    assert set(model.predict(DRAWN.images[1::2])) <= set(y)


def test_the_command_knows_every_method():
    assert tuple(TITLES) == METHODS


def test_a_method_that_cannot_learn_is_left_out(tmp_path):
    images = [np.full((12, 12), value, np.uint8) for value in (10, 20, 200, 210)]  # no patch of 16 fits
    labels = np.array(["dark", "dark", "light", "light"])
    rows, failed = compare_methods(images, labels, ["pixels", "sift"], dataset="small", n_splits=2)
    assert [row["method"] for row in rows] == ["raw pixels + SVM"] and rows[0]["trials"] == 2
    assert list(failed) == ["sift"]
    assert "12x12 pixels, at least 16x16 are needed" in failed["sift"]


def test_few_descriptors_give_fewer_words():
    images = [image[:24, :24] for image in DRAWN.images[:4]]
    model = SYSTEMS["sift"].make(0, 1).fit(images, [0, 0, 1, 1])
    assert len(model.pyramid_.words_) == 16  # four patches in each image
    assert model.predict(images).shape == (4,)


def test_hog_is_stored(tmp_path):
    model = SYSTEMS["hog"].make(0, 1).fit(DRAWN.images[::4], DRAWN.target[::4])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(DRAWN.images), model.predict(DRAWN.images))
