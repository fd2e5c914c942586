"""The decision value as a linear function of the pooled codes, exact for the image at hand.

Unit length divides by a number that is known for a given image, and a projection is linear, so

    decision = coef . unit(P^T (codes - mean)) + intercept = gradient . codes + baseline + intercept.

A colour histogram beside these features has unit length already, and adds its own gradient . histogram.

The neuron-selectivity layer is not linear. Each neuron gets the secant from its activation
at the mean training features to the one it has: the line through both meets the image's activation, so
nothing is left over. The tangent at the image, the other linearisation, would be wrong by most of the
activation for a neuron that is saturated, which is when it has most to say. A secant is a choice all the
same: another baseline than the mean features would share the value out in another way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from midfea.engines import Projection
from midfea.learning.colour import ColourWords
from midfea.learning.ns_layer import INPUT_LENGTH, NSLayer

Floats = NDArray[np.float64]


class Neurons(NamedTuple):
    """The neurons of the layer, for one image."""

    activations: Floats  # (n_neurons,)
    usual: Floats  # activations at the mean training features
    contributions: Floats  # to the decision value, beyond those of the usual activations
    serves: NDArray[np.intp]  # the class that each responds to most, an index into `classes_`


class Linear(NamedTuple):
    """gradient . codes + by_colour . histogram + baseline, and the neurons whose secants it uses"""

    gradient: Floats
    by_colour: Floats  # empty without a histogram
    baseline: float
    neurons: Neurons | None = None


def in_codes(
    codes: NDArray[np.float32],
    features: NDArray[np.float32],
    coef: Floats,
    projection: Projection,
    layer: NSLayer | None,
    colour: ColourWords | None = None,
) -> Linear:
    """What the linear head's weights `coef` mean for pooled codes (n_codes,) and their features."""
    values = codes.astype(np.float64)
    mean, matrix = projection.mean, projection.matrix
    shifted = values if mean is None else values - mean
    projected = shifted if matrix is None else np.asarray(shifted @ matrix, dtype=np.float64)
    length = float(np.linalg.norm(projected))
    by_feature, baseline, neurons = _in_features(features.astype(np.float64), coef, layer)
    by_feature, by_colour = np.split(by_feature, [len(projected)])
    if colour is not None:
        of_chain, of_colour = colour.factors
        by_feature, by_colour = of_chain * by_feature, of_colour * by_colour
    gradient = by_feature if matrix is None else np.asarray(matrix @ by_feature)
    gradient = gradient / length if length else np.zeros_like(values)
    if mean is not None:
        baseline -= float(gradient @ mean)
    return Linear(gradient, by_colour, baseline, neurons)


def _in_features(
    features: Floats, coef: Floats, layer: NSLayer | None
) -> tuple[Floats, float, Neurons | None]:
    """The gradient by the features and what does not depend on them; with a layer, by its secants."""
    if layer is None:
        return coef, 0.0, None
    centred = features - layer.center
    stretch = INPUT_LENGTH / max(float(np.linalg.norm(centred)), float(np.finfo(np.float32).tiny))
    W = layer.W.astype(np.float64)
    inputs = W @ (stretch * centred)
    usual, activations = expit(layer.b.astype(np.float64)), expit(inputs + layer.b)
    tiny = np.abs(inputs) < 1e-9
    secants = np.where(tiny, usual * (1 - usual), (activations - usual) / np.where(tiny, 1.0, inputs))
    gradient = stretch * ((coef * secants) @ W)
    baseline = float(coef @ usual - gradient @ layer.center)
    serves = layer.class_responses.argmax(axis=1)
    neurons = Neurons(activations, usual, coef * (activations - usual), serves)
    return gradient, baseline, neurons
