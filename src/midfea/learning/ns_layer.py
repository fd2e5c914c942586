"""`NSLayer`: a fitted neuron-selectivity layer between an image's features and its linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

# The layer sees features less their mean over the training samples, all at this length. Which one does
# not matter: `NeuronSelectivity` has its own scale, and W holds it. Model files rely on this one.
INPUT_LENGTH = 16.0


@dataclass(frozen=True, eq=False)
class NSLayer:
    """sigmoid(W x + b) of centred features x of length `INPUT_LENGTH` (Section 3 of the paper).

    Attributes
    ----------
    W, b : the encoder, (n_neurons, p) and (n_neurons,)
    D : the decoder, (p, n_neurons)
    class_responses : mean activation of each neuron over each class, (n_neurons, n_classes)
    center : (p,), the mean of the training features; zeros if they are not centred
    """

    W: NDArray[np.float32]
    b: NDArray[np.float32]
    D: NDArray[np.float32]
    class_responses: NDArray[np.float32]
    center: NDArray[np.float32]

    def activations(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Activations (n, n_neurons) of features (n, p)."""
        return np.asarray(
            expit(centred(features, self.center) @ self.W.T + self.b), dtype=features.dtype
        )


def centred(features: NDArray[Any], center: NDArray[Any]) -> NDArray[Any]:
    """The features less the centre, at `INPUT_LENGTH`."""
    features = features - center
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    scale = INPUT_LENGTH / np.maximum(lengths, np.finfo(features.dtype).tiny)
    return features * scale.astype(features.dtype)
