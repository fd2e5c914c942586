"""The linear SVM of every comparison: standardised features, C chosen by validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.learning.folds import Indices, make_folds
from midfea.learning.head import C_CANDIDATES, Features, LinearHead, fit_linear_head, validate_C

N_FOLDS = 3


@dataclass(frozen=True, eq=False)
class StandardisedSvm:
    """Fitted: features as they come to class numbers.

    Attributes
    ----------
    centre, scale : of the training features, see `scaling`
    head : the SVM on standardised features
    """

    centre: Features
    scale: float
    head: LinearHead

    def scores(self, features: Features) -> Features:
        """Decision values (n, n_classes) of features (n, p)."""
        return self.head.scores(standardised(features, self.centre, self.scale))

    def predict(self, features: Features) -> Indices:
        """Class numbers of features (n, p)."""
        return np.asarray(self.scores(features).argmax(axis=1))


def fit_svm(
    features: Features,
    y: Indices,
    seed: int,
    groups: NDArray[Any] | None = None,
    candidates: Sequence[float] = C_CANDIDATES,
) -> StandardisedSvm:
    """Learned from features (n, p) and class numbers; the C with the most correct in validation."""
    centre, scale = scaling(features)
    inputs = standardised(features, centre, scale)
    C = candidates[0]
    if len(candidates) > 1:
        C = validate_C(inputs, y, candidates, make_folds(y, N_FOLDS, seed, groups)).C
    return StandardisedSvm(centre, scale, fit_linear_head(inputs, y, C, 1.0, np.asarray))


def scaling(features: Features) -> tuple[Features, float]:
    """The mean, and the root of the mean squared distance from it."""
    centre = features.mean(axis=0)
    return centre, max(float(np.sqrt(np.square(features - centre).sum(axis=1).mean())), 1e-12)


def standardised(features: Features, centre: Features, scale: float) -> Features:
    """Centred, of mean squared length 1 on the samples that `scaling` saw: one grid of C suits all."""
    return np.asarray((features - centre) / scale, dtype=np.float32)
