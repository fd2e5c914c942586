"""The fitted parts of a classifier and of a regressor, and how they work together.

picture -> extractor -> features [-> NS layer] -> linear head -> scores ┐
picture -> network head -> scores                                       ┴ joined -> probabilities
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from midfea.learning.extractor import FeatureExtractor
from midfea.learning.head import LinearHead
from midfea.learning.network.head import NetworkHead
from midfea.learning.ns_layer import NSLayer
from midfea.learning.validation import Validation
from midfea.pictures.picture import Picture


@dataclass(frozen=True, eq=False)
class ClassifierParts:
    """A fitted classifier. `classes` are the labels, sorted; columns of scores are in their order."""

    extractor: FeatureExtractor
    ns_layer: NSLayer | None
    head: LinearHead
    network: NetworkHead | None
    classes: NDArray[Any]
    validation: Validation

    def head_inputs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the linear head sees: the features, or the activations of the NS layer."""
        return features if self.ns_layer is None else self.ns_layer.activations(features)

    def scores(self, pictures: Sequence[Picture], n_threads: int = 1) -> NDArray[Any]:
        """Scores of pictures, (n, n_classes), by all heads together; each picture is looked at once."""
        features = self.extractor.transform(pictures, n_threads)
        linear = self.head.scores(self.head_inputs(features))
        if self.network is None:
            return linear
        return self.network.scores(linear, pictures, n_threads)

    def probabilities(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes)."""
        # The weights that join the heads calibrate their scores, too.
        scale = self.head.logit_scale if self.network is None else 1.0
        return np.asarray(softmax(scale * scores.astype(np.float64), axis=1))


@dataclass(frozen=True, eq=False)
class RegressorParts:
    """A fitted regressor: numbers = inputs . coef + intercept.

    expectation : inputs are divided by their sum first; `coef` holds what each neuron stands for
    """

    extractor: FeatureExtractor
    ns_layer: NSLayer | None
    coef: NDArray[np.float32]  # (n_inputs,)
    intercept: float
    expectation: bool

    def numbers(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """The number of each row of features."""
        inputs = features if self.ns_layer is None else self.ns_layer.activations(features)
        inputs = inputs.astype(np.float64)
        if self.expectation:
            inputs /= inputs.sum(axis=1, keepdims=True)
        return np.asarray(inputs @ self.coef + self.intercept, dtype=np.float64)
