"""Where the model disagrees: images whose label a person should look at again.

A wrong prediction is a mistake of the model far more often than of the label. Three rules keep the list
short and worth reading: the model is good, it is as sure of the other class as where it is right, and it
rules out the label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from midfea.learning.folds import Indices
from midfea.learning.interval import Interval
from midfea.learning.predictions import Predictions

MIN_ACCURACY = 0.8  # the lower end of the interval must reach it
MIN_RANK = 0.25  # share of the class's correct predictions that are less sure than a listed one
MAX_LABEL_CHANCE = 0.1  # of the probability that guessing gives a class


class Disagreements(NamedTuple):
    """Images to look at, the surest first; or why there is no list."""

    rows: Indices  # of the predictions
    reason: str | None = None


def find_disagreements(predictions: Predictions, interval: Interval) -> Disagreements:
    """Images where the model is far surer of another class than it is right.

    Parameters
    ----------
    predictions : for images that the model did not learn from
    interval : the accuracy on new images
    """
    if not interval.low >= MIN_ACCURACY:
        return Disagreements(np.zeros(0, dtype=np.intp), _too_weak(interval))
    confidence = predictions.confidence
    label_probability = predictions.probabilities[np.arange(len(confidence)), predictions.labels]
    least = np.full(len(predictions.classes), np.inf)  # a class that was never correct lists nothing
    for k in np.unique(predictions.predicted[predictions.correct]):
        least[k] = np.quantile(confidence[predictions.correct & (predictions.predicted == k)], MIN_RANK)
    listed = (
        ~predictions.correct
        & (confidence >= least[predictions.predicted])
        & (label_probability <= MAX_LABEL_CHANCE / len(predictions.classes))
    )
    rows = np.flatnonzero(listed)
    return Disagreements(rows[np.argsort(-confidence[rows], kind="stable")])


def _too_weak(interval: Interval) -> str:
    between = f"95 % interval {100 * interval.low:.1f} to {100 * interval.high:.1f} %"
    return (
        f"The model is right for {interval.accuracy:.1%} of images ({between}). Where it disagrees with "
        "a label, the model is usually the one that is wrong, so nothing is listed. Train with more "
        f"images first: the lower end of the interval must reach {MIN_ACCURACY:.0%}."
    )
