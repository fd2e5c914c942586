"""How the linear head and the network head are joined: by weights that validation decides.

The linear head sees fixed features of the whole image, the network a small one; they err on different
images. The weights are those that make the labels of validation images most likely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from midfea.learning.folds import Indices

Scores = (
    Sequence[NDArray[np.float64]] | NDArray[np.float64]
)  # of the three classifiers, (3, n, n_classes)

# Weights of the linear head and of the network's two classifiers, and the log-likelihood, of all
# validation images, that other weights must gain for each unit of squared distance.
USUAL_WEIGHTS = np.array([1.0, 0.5, 0.5])
PRICE_OF_OTHER_WEIGHTS = 0.02
# With groups: few of them, each with much the same to say, count as one image does. The linear head's
# weight is relative to its logit scale.
USUAL_WEIGHTS_WITH_GROUPS = np.array([1.0, 0.7, 0.2])
PRICE_WITH_GROUPS = 0.5
MAX_WEIGHT = 50.0
# With one image of each class nothing can be held out. The linear head's weight then grows with the
# square of the number of classes.
SINGLE_IMAGE_WEIGHT = 0.008


def join(scores: Scores, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of all together, (n, n_classes); their softmax are probabilities."""
    return np.tensordot(weights, np.asarray(scores, dtype=np.float64), 1)


def joint_weights(
    scores: Scores, y: Indices, groups: Indices | None = None, logit_scale: float = 1.0
) -> NDArray[np.float64]:
    """The weights that make the labels of validation images most likely, none below zero.

    Weights far from the usual ones must be worth it, or ten images could decide by chance.

    Parameters
    ----------
    groups : of the validation images, if groups were held out
    logit_scale : of the linear head; used with groups
    """
    usual, unit, price = USUAL_WEIGHTS, np.ones(3), PRICE_OF_OTHER_WEIGHTS / len(y)
    if groups is not None:
        unit = np.array([logit_scale, 1.0, 1.0])
        usual = USUAL_WEIGHTS_WITH_GROUPS * unit
        price = PRICE_WITH_GROUPS / len(np.unique(groups))

    def cost(weights: NDArray[np.float64]) -> float:
        distance = float(np.square((weights - usual) / unit).sum())
        return log_loss(join(scores, weights), y) + price * distance

    bounds = [(0, MAX_WEIGHT)] * len(usual)
    return np.asarray(minimize(cost, usual, bounds=bounds, method="L-BFGS-B").x)


def weights_without_validation(per_class: float, n_classes: int) -> NDArray[np.float64]:
    """The weights where nothing could be held out."""
    by_head = 1.0 if per_class > 1 else SINGLE_IMAGE_WEIGHT * n_classes**2
    return USUAL_WEIGHTS * [by_head, 1, 1]


def log_loss(scores: NDArray[np.float64], y: Indices) -> float:
    """Mean negative log-likelihood, with one pseudo-image more whose label is uniform.

    Without it, weights grow beyond all bounds when every validation image is correct.
    """
    logs = log_softmax(scores, axis=1)
    return float(-(logs[np.arange(len(y)), y].sum() + logs.mean()) / (len(y) + 1))
