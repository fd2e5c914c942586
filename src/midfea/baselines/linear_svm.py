"""The linear SVM of every comparison: standardised features, C chosen by validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.learning import svm

Features = NDArray[np.float32]
C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
N_FOLDS = 3


@dataclass(frozen=True)
class LinearSvm:
    """Fitted: `predict` takes features as they come and gives class numbers."""

    centre: Features
    scale: float
    weights: Features
    intercepts: Features
    C: float

    def predict(self, features: Features) -> NDArray[np.intp]:
        scores = standardised(features, self.centre, self.scale) @ self.weights + self.intercepts
        return np.asarray(svm.margins_to_scores(scores).argmax(axis=1))


def fit_svm(
    features: Features,
    y: NDArray[np.intp],
    seed: int,
    groups: NDArray[Any] | None = None,
    Cs: Sequence[float] = C_GRID,
) -> LinearSvm:
    """Learned from features (n, p) and class numbers; the C of `Cs` that predicts most in validation."""
    centre, scale = scaling(features)
    inputs = standardised(features, centre, scale)
    C = Cs[0]
    if len(Cs) > 1:
        margins = svm.held_out_margins(inputs, y, Cs, N_FOLDS, seed, groups=groups)
        correct = [(svm.margins_to_scores(m).argmax(axis=1) == y).sum() for m in margins]
        C = Cs[int(np.argmax(correct))]
    return LinearSvm(centre, scale, *svm.fit_linear_svm(inputs, y, C), C)


def scaling(features: Features) -> tuple[Features, float]:
    """The mean, and the root of the mean squared distance from it."""
    centre = features.mean(axis=0)
    return centre, max(float(np.sqrt(np.square(features - centre).sum(axis=1).mean())), 1e-12)


def standardised(features: Features, centre: Features, scale: float) -> Features:
    """Centred, of mean squared length 1 on the samples that `scaling` saw: one grid of C suits all."""
    return np.asarray((features - centre) / scale, dtype=np.float32)
