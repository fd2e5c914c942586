"""What a report shows of the inside of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.predictions import Predictions
from midfea.progress import track
from midfea.view.colours import stage_drawings
from midfea.view.markup import figure

MAX_SAMPLES = 6  # images whose stage maps are shown


class Classifier(Protocol):
    """A fitted classifier of any kind, such as an exported one."""

    def predict_proba(self, images: Any, /) -> NDArray[Any]:
        """Probabilities (n, n_classes)."""


@dataclass(frozen=True)
class Inside:
    """Parts of a fitted `MidFeaClassifier`.

    filters : (n, size, size)
    n_words : of the codebook
    feature_maps : gives the outputs of the stages for an image
    class_responses : mean activations (n_neurons, n_classes) of the NS layer; None without one
    features_only : the linear head, on the features, decides alone
    settings : parameters in force
    """

    filters: NDArray[np.float32]
    n_words: int
    feature_maps: Callable[[Any], dict[str, NDArray[Any]]]
    class_responses: NDArray[Any] | None
    features_only: bool
    settings: Mapping[str, object]

    @classmethod
    def of(cls, classifier: Classifier) -> Inside | None:
        """None for classifiers of another kind, such as ONNX's, whose inside is not known."""
        if not isinstance(classifier, MidFeaClassifier):
            return None
        layer = classifier.ns_layer_
        return cls(
            classifier.filters_,
            len(classifier.codebook_),
            classifier.feature_maps,
            None if layer is None else layer.class_responses,
            layer is None and classifier.network_ is None,
            classifier.settings_,
        )


def stage_maps(inside: Inside, predictions: Predictions, images: Sequence[Any]) -> str:
    """Images of different classes on their way through the stages."""
    rows = []
    chosen = samples(predictions)
    for i in track(chosen, "stage maps", len(chosen)):
        maps = inside.feature_maps(images[i])
        drawings = [(str(predictions.classes[predictions.labels[i]]), maps["image"])]
        drawings += stage_drawings(maps)[1:]
        cells = "".join(figure(pixels, caption) for caption, pixels in drawings)
        rows.append(f'<div class="stages">{cells}</div>')
    return (
        "<p>The image as the model sees it; which filter responds where (in the colour of its frame "
        "above, the brighter the stronger); what is left after pooling; the word at each place, one "
        f'colour for each of the {inside.n_words} words.</p><div class="rows">{"".join(rows)}</div>'
    )


def samples(predictions: Predictions) -> list[int]:
    """A correct image of each of some classes, spread over all of them."""
    firsts = [
        int(np.argmax(members))
        for number in range(len(predictions.classes))
        if (members := predictions.correct & (predictions.labels == number)).any()
    ]
    spread = np.linspace(0, len(firsts) - 1, min(MAX_SAMPLES, len(firsts)))
    return [firsts[i] for i in spread.astype(int)]
