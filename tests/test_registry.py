"""Every compared system as `midfea compare` makes it: it learns from images and names their classes."""

import numpy as np
import pytest

from midfea.baselines.registry import SYSTEMS, fit_images
from midfea.bench.methods import TITLES
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
