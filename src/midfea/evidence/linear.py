"""The decision value as a linear function of the pooled codes, exact for the image at hand.

Unit length divides by a number that is known for a given image, and a projection is linear, so

    decision = coef . unit(P^T (codes - mean)) + intercept = slopes . codes + baseline + intercept.

The neuron-selectivity layer is not linear. Each neuron gets the slope of the secant from its activation
at the mean training features to the one it has: the line through both meets the image's activation, so
nothing is left over. The tangent at the image, the other linearisation, would be wrong by most of the
activation for a neuron that is saturated, which is when it has most to say. A secant is a choice all the
same: another baseline than the mean features would share the value out in another way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from midfea.estimators.selective import LENGTH

Floats = NDArray[np.float64]


class Linear(NamedTuple):
    """slopes . codes + baseline"""

    slopes: Floats
    baseline: float


class Neurons(NamedTuple):
    """The neurons of the layer, for one image."""

    activations: Floats  # (n_neurons,)
    usual: Floats  # activations at the mean training features
    contributions: Floats  # to the decision value, beyond those of the usual activations
    serves: NDArray[np.intp]  # the class that each responds to most, an index into `classes_`


def in_codes(model: Any, codes: NDArray[Any], coef: Floats) -> tuple[Linear, Neurons | None]:
    """What the SVM's weights `coef` mean for pooled codes (n_codes,)."""
    codes = codes.astype(np.float64)
    mean, matrix = model.projection_mean_, model.projection_
    shifted = codes if mean is None else codes - mean
    projected = shifted if matrix is None else np.asarray(shifted @ matrix, dtype=np.float64)
    length = float(np.linalg.norm(projected))
    features = projected / length if length else projected
    by_feature, baseline, neurons = _in_features(model, features, coef)
    slopes = by_feature if matrix is None else np.asarray(matrix @ by_feature)
    slopes = slopes / length if length else np.zeros_like(codes)
    if mean is not None:
        baseline -= float(slopes @ mean)
    return Linear(slopes, baseline), neurons


def _in_features(model: Any, features: Floats, coef: Floats) -> tuple[Floats, float, Neurons | None]:
    """Slopes on the features and what does not depend on them; with a layer, by its secants."""
    layer = model.selectivity_
    if layer is None:
        return coef, 0.0, None
    centred = features - layer.center_
    stretch = LENGTH / max(float(np.linalg.norm(centred)), float(np.finfo(np.float32).tiny))
    W = layer.W_.astype(np.float64)
    inputs = W @ (stretch * centred)
    usual, activations = expit(layer.b_.astype(np.float64)), expit(inputs + layer.b_)
    tiny = np.abs(inputs) < 1e-9
    secants = np.where(tiny, usual * (1 - usual), (activations - usual) / np.where(tiny, 1.0, inputs))
    slopes = stretch * ((coef * secants) @ W)
    baseline = float(coef @ usual - slopes @ layer.center_)
    serves = layer.selectivity_.argmax(axis=1)
    return slopes, baseline, Neurons(activations, usual, coef * (activations - usual), serves)
