"""The fitted parts of a classifier and of a regressor, and how they work together.

picture -> extractor -> features [-> NS layer] -> linear head -> scores ┐
picture -> network head -> scores                                       ┴ joined -> probabilities
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from midfea.learning.belonging import MIN_IMAGES, Belonging, images_needed
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.head import LinearHead
from midfea.learning.network.head import NetworkHead
from midfea.learning.ns_layer import NSLayer
from midfea.learning.validation import Validation
from midfea.pictures.picture import Picture


class Answers(NamedTuple):
    """What a classifier says of n pictures.

    scores : (n, n_classes)
    belonging : (n,), how much each looks like images of the classes; None if that is not known
    """

    scores: NDArray[Any]
    belonging: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class ClassifierParts:
    """A fitted classifier. `classes` are the labels, sorted; columns of scores are in their order."""

    extractor: FeatureExtractor
    ns_layer: NSLayer | None
    head: LinearHead
    network: NetworkHead | None
    classes: NDArray[Any]
    validation: Validation
    belonging: Belonging | None = None

    def head_inputs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the linear head sees: the features, or the activations of the NS layer."""
        return features if self.ns_layer is None else self.ns_layer.activations(features)

    def answers(self, pictures: Sequence[Picture], n_threads: int = 1) -> Answers:
        """What all heads together say of pictures; each picture is looked at once."""
        features = self.extractor.transform(pictures, n_threads)
        scores = self.scores(features, pictures, n_threads)
        return Answers(scores, self.belonging_of(scores, features))

    def scores(
        self, features: NDArray[np.float32], pictures: Sequence[Picture], n_threads: int = 1
    ) -> NDArray[Any]:
        """Scores of all heads together, (n, n_classes), of pictures whose features are known."""
        scores: NDArray[Any] = self.head.scores(self.head_inputs(features))
        return scores if self.network is None else self.network.scores(scores, pictures, n_threads)

    def belonging_of(
        self, scores: NDArray[Any], features: NDArray[np.float32]
    ) -> NDArray[np.float64] | None:
        """See `learning.belonging`; None if there were too few validation images."""
        if self.belonging is None:
            return None
        return self.belonging.of(self.logits(scores), features)

    def problem_with_unknown(self, unknown: float) -> str:
        """Why no image can be refused at this share of images of the classes; empty if some can."""
        if self.belonging is None:
            return (
                f"belonging is not known; it needs {MIN_IMAGES} validation images or more, some of each "
                f"class, and there are {len(self.validation)}: add training images"
            )
        smallest = self.belonging.smallest
        if unknown >= smallest:
            return ""
        return (
            f"a share of {unknown:g} needs {images_needed(unknown)} validation images and there are "
            f"{len(self.validation)}: use {math.ceil(1000 * smallest) / 1000:g} or more, or add "
            "training images"
        )

    def logits(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Scores whose softmax are probabilities."""
        # The weights that join the heads calibrate their scores, too.
        scale = self.head.logit_scale if self.network is None else 1.0
        return np.asarray(scale * scores.astype(np.float64))

    def probabilities(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes)."""
        return np.asarray(softmax(self.logits(scores), axis=1))


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
