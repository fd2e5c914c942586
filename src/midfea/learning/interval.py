"""How good will the model be on new images? An interval for its accuracy, from counts.

For a test set that the model has not seen, the number of right answers is binomial, and Wilson's
interval holds what it promises for small counts and near 100 % too.

`midfea train` has no such set; it has the answers of ten models, each for a tenth of the images, trained
on the other nine tenths. Their share of right answers estimates the accuracy of a model trained on nine
tenths, so if anything it is too low. But it is less certain than n independent answers: the ten training
sets overlap, and the model that is kept is yet another one. Nadeau and Bengio (Machine Learning 52,
2003) take the variance of an average over overlapping training sets to be larger by the ratio of test to
training size; for K folds, that is a variance of

    p (1 - p) / n x (1 + K / (K - 1)),

2.1 times that of n independent answers for ten folds. We take Wilson's interval for as many fewer
answers. That is also about the spread that a test on n new images would show beside the estimate: its
own and the estimate's. `benchmarks/interval.py` counts how often such a test falls inside.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Z = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations


class Interval(NamedTuple):
    """An accuracy and the 95 % interval around it, as shares."""

    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.accuracy:.1%} (95 % interval {100 * self.low:.1f} to {100 * self.high:.1f} %)"


def wilson(right: float, n: float) -> Interval:
    """Wilson's score interval for `right` of n independent answers; n need not be whole.

    Examples
    --------
    >>> print(wilson(45, 50))
    90.0% (95 % interval 78.6 to 95.7 %)
    """
    if n <= 0:
        return Interval(math.nan, 0.0, 1.0)
    share = right / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def cross_validated(right: int, n: int, n_folds: int, n_used: int | None = None) -> Interval:
    """The interval for a model trained on all samples, from n answers for samples held out.

    Parameters
    ----------
    right : how many of the n answers are right
    n_folds : each fold was held out while the others were learned from
    n_used : how many of the folds were held out in turn; all of them if not given
    """
    used = n_folds if n_used is None else n_used
    factor = 1 + used / (n_folds - 1)
    return wilson(right / factor, n / factor)
