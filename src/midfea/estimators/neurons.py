"""Fitting the neuron-selectivity layer of an image estimator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from midfea.engines import EngineSettings
from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.learning.ns_layer import NSLayer, centred


def fit_ns_layer(
    selectivity: NeuronSelectivity | int,
    features: NDArray[np.float32],
    y: NDArray[np.intp],
    engine: EngineSettings,
    random_state: int | np.random.RandomState | None,
) -> NSLayer:
    """The layer that the parameter `selectivity` asks for, fitted to features and class numbers."""
    given = isinstance(selectivity, NeuronSelectivity)
    layer = clone(selectivity) if given else NeuronSelectivity(selectivity)
    if layer.random_state is None:
        layer.set_params(random_state=random_state)
    if layer.engine == "auto":
        layer.set_params(engine=engine.name, device=engine.device)
    center = features.mean(axis=0)
    layer.fit(centred(features, center), y)
    return NSLayer(layer.W_, layer.b_, layer.D_, layer.class_responses_, center)
