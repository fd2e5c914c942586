"""How good will the model be on new images? A 95 % interval for its accuracy, from counts.

For a test set that the model has not seen, the number of correct answers is binomial, and Wilson's
interval covers what it promises for small counts and near 100 % too.

Cross-validation is less certain than as many independent answers: the training parts overlap, and the
model that is kept is yet another one. Nadeau and Bengio (Machine Learning 52, 2003) take the variance of
such an average to be larger by the ratio of test to training size, that is, for K folds of which U are
held out in turn, by a factor of 1 + U / (K - 1). In simulations that is too much: the factor lies
between 1.0 and 1.6 for ten folds. We use Wilson's interval with an effective sample size of n divided by
1 + (`OVERLAP` + `SMALL_SAMPLE` / n) U / (K - 1): models of few images differ more from each other.
`tests/test_interval.py` counts how often it covers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

OVERLAP = 0.25  # share of Nadeau and Bengio's addition to the variance
SMALL_SAMPLE = 5.0  # images
TOO_FEW = "too few images to say"
Z = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations


class Interval(NamedTuple):
    """An accuracy and the 95 % interval around it, as shares; NaN if it cannot be said."""

    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        known = TOO_FEW if math.isnan(self.accuracy) else f"{self.accuracy:.1%}"
        return f"{known} (95 % interval {100 * self.low:.1f} to {100 * self.high:.1f} %)"


def wilson(correct: float, n: float) -> Interval:
    """Wilson's score interval for `correct` of n independent answers; n need not be whole.

    Examples
    --------
    >>> from midfea.learning.interval import wilson
    >>> print(wilson(45, 50))
    90.0% (95 % interval 78.6 to 95.7 %)
    """
    if n <= 0:
        return Interval(math.nan, 0.0, 1.0)
    share = correct / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def cross_validated(correct: float, n: float, n_folds: int, n_used: int) -> Interval:
    """The interval for a model trained on all samples, from n answers for samples held out.

    Parameters
    ----------
    correct : how many of the n answers are correct
    n_folds : the samples were dealt to so many folds
    n_used : so many of them were held out, each once
    """
    factor = overlap_factor(n, n_folds, n_used)
    return wilson(correct / factor, n / factor)


def overlap_factor(n: float, n_folds: int, n_used: int) -> float:
    """By how much n answers for samples held out are worth less than n independent ones."""
    share = OVERLAP + SMALL_SAMPLE / max(n, 1)
    return 1 + share * n_used / (n_folds - 1)
