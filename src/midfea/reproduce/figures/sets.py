"""The data sets as the figures need them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea import datasets
from midfea.stages import learn_filters

FILTER_IMAGES = 10  # of each class: about as many images as the estimators learn filters from
# From the front, from one side, and from so far to the other that half the face is dark.
LIGHTS = {"azimuth 0°": "A+000E+00", "azimuth +35°": "A+035E+15", "azimuth −70°": "A-070E+00"}


@lru_cache(maxsize=1)
def objects(data: Path) -> Any:
    """Caltech-101, read once for all figures that show it."""
    return datasets.load_caltech101(data)


@lru_cache(maxsize=1)
def object_filters(data: Path, seed: int) -> NDArray[np.float32]:
    """The 9 filters learned from training images of all classes of Caltech-101 (Fig. 6 (a))."""
    images, target = objects(data).images, objects(data).target
    rng = np.random.RandomState(seed)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(target == name))[:FILTER_IMAGES] for name in np.unique(target)]
    )
    return learn_filters([images[i] for i in chosen], random_state=seed)


@lru_cache(maxsize=1)
def lit_faces(data: Path) -> Any:
    """Extended Yale B at its full size, whose fine lines are what the maps show."""
    return datasets.load_yale_b(data, size=(192, 168))


@lru_cache(maxsize=1)
def lit_face_filters(data: Path, seed: int) -> NDArray[np.float32]:
    """The 9 filters learned from Extended Yale B (appendix)."""
    images = lit_faces(data).images
    chosen = np.random.RandomState(seed).permutation(len(images))[:500]
    return learn_filters([images[i] for i in chosen], random_state=seed)


def forget() -> None:
    """Let go of the images that were kept between figures."""
    for kept in (objects, object_filters, lit_faces, lit_face_filters):
        kept.cache_clear()
