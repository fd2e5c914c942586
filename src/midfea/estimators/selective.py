"""The neuron-selectivity layer inside the image estimators."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from midfea.estimators.neuron_selectivity import NeuronSelectivity

# The layer sees features less their mean over the training samples, at this length: what all images
# share is no class's business, and codes of features of length 1 would stay far below 1 and use little
# of the sigmoid's range. Both were chosen by cross-validation on training parts of AR and Caltech-101.
LENGTH = 16.0


def fit_layer(model: Any, features: NDArray[np.float32], labels: NDArray[np.intp]) -> NeuronSelectivity:
    """The layer that the model's `selectivity` asks for, fitted to its features; `center_` is theirs."""
    layer = model.selectivity
    layer = clone(layer) if isinstance(layer, NeuronSelectivity) else NeuronSelectivity(layer)
    if layer.random_state is None:
        layer.set_params(random_state=model.random_state)
    layer.center_ = features.mean(axis=0)
    fitted = _beside(model, layer).fit(centred(features, layer.center_), labels)
    return fitted.set_params(engine=layer.engine, device=layer.device)


def activations(model: Any, layer: NeuronSelectivity | None, features: NDArray[Any]) -> NDArray[Any]:
    """What the classifier sees: the layer's activations, or the features if there is no layer."""
    if layer is None:
        return features
    return _beside(model, layer).transform(centred(features, layer.center_))


def _beside(model: Any, layer: NeuronSelectivity) -> NeuronSelectivity:
    """A copy that works where the model does at present, unless the layer has an engine of its own."""
    layer = copy(layer)
    if layer.engine == "auto":
        layer.set_params(engine=model.engine, device=model.device)
    return layer


def centred(features: NDArray[Any], center: NDArray[Any]) -> NDArray[Any]:
    """The features less the centre, at `LENGTH`."""
    features = features - center
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    scale = LENGTH / np.maximum(lengths, np.finfo(features.dtype).tiny)
    return features * scale.astype(features.dtype)
