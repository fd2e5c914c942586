"""The neuron-selectivity layer inside the image estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from midfea.estimators.neuron_selectivity import NeuronSelectivity

# Mid-level features have length 1; the objective then keeps the codes far below 1, where they use
# little of the sigmoid's range (see `NeuronSelectivity`). 16 was chosen over 8 and 24 by
# cross-validation on training parts of AR faces and of 30 Caltech-101 classes (one seed, few tries).
LENGTH = 16.0


def fit_layer(model: Any, features: NDArray[np.float32], labels: NDArray[np.intp]) -> NeuronSelectivity:
    """The layer that the model's `selectivity` asks for, fitted to its features."""
    layer = model.selectivity
    layer = clone(layer) if isinstance(layer, NeuronSelectivity) else NeuronSelectivity(layer)
    if layer.random_state is None:
        layer.set_params(random_state=model.random_state)
    return layer.fit(LENGTH * features, labels)


def activations(layer: NeuronSelectivity | None, features: NDArray[Any]) -> NDArray[Any]:
    """What the classifier sees: the layer's activations, or the features if there is no layer."""
    return features if layer is None else layer.transform(LENGTH * features)
