"""Descriptors of the images with the paper's settings, for the sections that need no more than those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from midfea.bench.timing import Image
from midfea.engines import get_engine
from midfea.learning.codebook import make_chain
from midfea.learning.settings import ChainSettings
from midfea.stages import learn_filters

Points = NDArray[np.float32]


def describer(images: Sequence[Image], seed: int) -> Callable[[Image], Points]:
    """A function from an image to its descriptors (n, 144), with nine filters learned on the images."""
    filters = learn_filters(images, n_patches=10_000, random_state=seed)
    chain = make_chain(ChainSettings(), filters, None, (1.0,))
    prepared = get_engine("cpu").prepare(chain)
    return lambda image: prepared.descriptors(image).reshape(-1, chain.n_components)
