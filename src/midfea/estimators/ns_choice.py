"""The settings of a neuron-selectivity layer, chosen by validation on the training samples."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from midfea.engines import EngineSettings
from midfea.estimators.neuron_selectivity import NeuronSelectivity, fit_ns_layer
from midfea.learning.folds import Indices
from midfea.learning.head import C_CANDIDATES, Features, validate_C
from midfea.progress import track

# The first ones are the paper's. Another one must be clearly better: differences of a few samples are
# chance, and new images differ from those held out more than these differ from each other.
CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {"length": 1.0, "beta": 0.5},
    {"length": 1.0, "beta": 5.0},
    {"length": 16.0, "beta": 0.5},
    {"length": 16.0, "beta": 5.0},
    {"length": 1.0, "beta": 0.5, "center": False},
)

MIN_DEVIATIONS = 2.0  # a gain must be so many standard deviations of chance


class LayerChoice(NamedTuple):
    """A layer, not fitted, and the C that suits the SVM on its activations."""

    layer: NeuronSelectivity
    C: float


def choose_layer(
    n_neurons: Sequence[int],
    features: Features,
    y: Indices,
    folds: Indices,
    *,
    candidates: Sequence[Mapping[str, Any]] = CANDIDATES,
    penalties: Sequence[float] = C_CANDIDATES,
    engine: EngineSettings | None = None,
    random_state: int | np.random.RandomState | None = None,
    class_weights: NDArray[np.float32] | None = None,
) -> LayerChoice:
    """The layer with which a linear SVM is most often correct on samples held out.

    First the number of neurons, with the first candidate's settings, then the other candidates; each
    replaces the best so far if it is clearly better. The layer is learned anew for each fold, without
    the samples held out. One whose codes collapse is passed over.
    """
    engine = EngineSettings() if engine is None else engine
    layers = [NeuronSelectivity(n, **candidates[0]) for n in n_neurons]
    rest = candidates[1:]
    if len(layers) == 1 and not rest and len(penalties) == 1:
        return LayerChoice(layers[0], penalties[0])
    best = LayerChoice(layers[0], penalties[0])
    correct_by_best: NDArray[Any] | None = None
    for i in track(range(len(layers) + len(rest)), "settings of the NS layer", len(layers) + len(rest)):
        if i < len(layers):
            layer = layers[i]
        else:
            layer = NeuronSelectivity(best.layer.n_neurons, **rest[i - len(layers)])

        def learn(x: Features, labels: Indices, layer: NeuronSelectivity = layer) -> Any:
            return fit_ns_layer(layer, x, labels, engine, random_state).activations

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)
                validated = validate_C(features, y, penalties, folds, learn, class_weights=class_weights)
        except ConvergenceWarning:  # the codes have collapsed
            continue
        correct = (validated.scores.argmax(axis=1) == y) & np.isfinite(validated.scores[:, 0])
        weighted = correct if class_weights is None else correct * class_weights[y]
        if correct_by_best is None or clearly_better(weighted, correct_by_best):
            best, correct_by_best = LayerChoice(layer, validated.C), weighted
    return best


def clearly_better(new: NDArray[Any], old: NDArray[Any]) -> bool:
    """Whether more than chance lies between predictions of the same samples: weights of correct ones."""
    gains = new.astype(np.float64) - old
    return bool(gains.sum() > MIN_DEVIATIONS * np.sqrt(np.square(gains).sum()))
