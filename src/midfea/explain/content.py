"""What the page and the drawing of an explanation both show, as words and arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.evidence.explanation import Explanation, Word
from midfea.view.colours import crop

MAX_NEURONS = 8


class Example(NamedTuple):
    """An image to show in the explanation, such as a similar training image."""

    image: NDArray[Any]
    caption: str


class ActiveNeuron(NamedTuple):
    """A neuron, the class that it serves, its activation and what it adds to the decision value."""

    number: int  # from 1
    serves: str
    activation: float
    contribution: float


def headline(explanation: Explanation) -> str:
    """The predicted class and its probability."""
    return f"{explanation.predicted} ({float(explanation.probabilities.max()):.0%})"


def sum_of_parts(explanation: Explanation) -> str:
    """How the decision value comes about."""
    colours = f" (colours {explanation.colour_share:+.3f})" if explanation.colour_share else ""
    parts = [
        f"evidence {explanation.evidence.sum():+.3f}{colours}",
        f"intercept {explanation.intercept:+.3f}",
    ]
    if explanation.baseline:
        parts.append(f"baseline {explanation.baseline:+.3f}")
    if explanation.network_share:
        parts.append(f"network {explanation.network_share:+.3f} (not on the map)")
    return f"Decision value for {explanation.label}: {explanation.decision:.3f} = {', '.join(parts)}"


def probabilities(explanation: Explanation, n_classes: int) -> list[tuple[str, float]]:
    """The most probable classes, most first."""
    order = np.argsort(-explanation.probabilities, kind="stable")[:n_classes]
    return [(str(explanation.classes[i]), float(explanation.probabilities[i])) for i in order]


def word_image(explanation: Explanation, word: Word) -> Example:
    """A word at the place where it weighed most, and what it adds to the decision value."""
    return Example(crop(explanation.image, word.boxes[0]), f"{word.contribution:+.3f}")


def active_neurons(explanation: Explanation) -> list[ActiveNeuron]:
    """The neurons with the strongest activations; none without an NS layer."""
    neurons = explanation.neurons
    if neurons is None:
        return []
    order = np.argsort(-neurons.activations, kind="stable")[:MAX_NEURONS]
    return [
        ActiveNeuron(
            int(n) + 1,
            str(explanation.classes[neurons.serves[n]]),
            float(neurons.activations[n]),
            float(neurons.contributions[n]),
        )
        for n in order
    ]
