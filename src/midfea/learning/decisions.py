"""What to do with a prediction: thresholds that keep a promise on new images, and what they cost.

Two wishes can be promised from labelled images that the model did not learn from:

- "99 % of what is decided shall be correct": a confidence from which on predictions are taken;
  people look at the other images (`PrecisionTarget`);
- "at most 1 % of the cracks shall be missed": a probability from which on the answer is "crack", even if
  another class is more probable (`MissTarget`).

The threshold that looks best on some images promises too much for others. Both are chosen with a margin
that is exact for any number of images, if new images are of the same kind. Where there are too few
images for a promise, the reason is said instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from midfea.learning.belonging import refused
from midfea.learning.interval import Interval, wilson
from midfea.learning.predictions import Predictions

RISK = 0.05  # how often a promised precision may fail: 95 % confidence
MIN_DECIDED_SHARE = 0.25  # rules that decide fewer images are not looked for
MIN_SHORTENED = 0.95  # a threshold may be so much lower than needed, to be short
UNSURE, NONE_OF_THESE = -1, -2  # in place of a class number

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Threshold:
    """A threshold that keeps a promise, or None and the reason why nothing can be promised."""

    value: float | None
    reason: str = ""


def precision_threshold(
    confidence: Floats, correct: Bools, precision: float, independent: float = 1.0
) -> Threshold:
    """The lowest confidence from which on at least this share of new predictions is correct.

    Fixed-sequence testing (Angelopoulos, Bates, Candes, Jordan, Lei: Learn then Test, 2021). The images
    stand in the order of their confidence. One image more at a time, the exact binomial test of Clopper
    and Pearson asks whether too many of those so far could be wrong on new images; the first test that
    fails ends it. Each test is at 5 %, and so is the whole. For let t be the highest confidence from
    which on too many new predictions are wrong. Our images above t are a sample of all above t, and
    their test comes before that of any threshold that is too low. It is passed wrongly in 5 % of the
    cases.

    Parameters
    ----------
    confidence : (n,)
    correct : (n,)
    precision : the share of the decided images that shall be correct
    independent : independent images by images; less than one where images come in groups
    """
    n = len(confidence)
    order = np.argsort(-confidence, kind="stable")
    ranked = confidence[order]
    needed = math.ceil(math.log(RISK) / math.log(precision) / independent - 1e-9)
    if n < needed:
        return Threshold(None, f"that needs {needed:,} images or more, there are {n:,}")
    start = max(needed, math.ceil(MIN_DECIDED_SHARE * n))
    # Equally confident images are decided together.
    steps = np.flatnonzero(np.append(ranked[:-1] > ranked[1:], True)) + 1
    steps = steps[steps >= start]
    n_decided = steps * independent
    n_wrong = np.cumsum(~correct[order])[steps - 1] * independent
    # How often so few are wrong, if the share of wrong ones is as large as allowed.
    passed = betainc(np.maximum(n_decided - n_wrong, 1e-9), n_wrong + 1, precision) <= RISK
    n_passed = len(passed) if passed.all() else int(passed.argmin())
    if not n_passed:
        wrong = int(np.count_nonzero(~correct[order[: steps[0]]]))
        return Threshold(
            None, f"of the {steps[0]:,} most confident predictions {wrong:,} are wrong, too many"
        )
    last = int(steps[n_passed - 1])
    if last == n:
        return Threshold(0.0)
    return Threshold(short_number_between(float(ranked[last]), float(ranked[last - 1])))


def recall_threshold(probability: Floats, missed: float, independent: float = 1.0) -> Threshold:
    """The probability that at most this share of a class lies below, on average.

    Split-conformal prediction (Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005): a
    new image of the class is as likely to take any place among n that were held out, so it lies below
    the k-th smallest probability with probability k / (n + 1) at most.

    Parameters
    ----------
    probability : (n,), of the class, for images of the class
    missed : the share of the class that may be missed
    independent : as in `precision_threshold`
    """
    n = len(probability)
    n_free = missed * (n * independent + 1) - 1  # that may lie below
    if n_free < -1e-9:
        needed = math.ceil((1 / missed - 1) / independent - 1e-9)
        return Threshold(None, f"that needs {needed:,} images of the class or more, there are {n:,}")
    ranked = np.sort(probability)
    place = min(int(n_free / independent + 1e-9), n - 1)
    highest = float(ranked[place])
    below = max(float(ranked[place - 1]) if place else 0.0, MIN_SHORTENED * highest)
    return Threshold(short_number_between(below, highest))


def short_number_between(low: float, high: float) -> float:
    """A number above `low`, at most `high`, with as few digits as can be: people will type it."""
    for digits in range(1, 16):
        candidate = math.floor(high * 10**digits) / 10**digits
        if low < candidate <= high:
            return candidate
    return high


@dataclass(frozen=True)
class DecisionRule:
    """From probabilities to answers.

    sought : number of a class, and the probability from which on it is the answer, even if another class
        is more probable
    unsure_below : no answer below this confidence
    unknown : share of images of the classes that may be refused as none of them; None: none is refused
    """

    sought: tuple[int, float] | None = None
    unsure_below: float = 0.0
    unknown: float | None = None

    @property
    def may_differ(self) -> bool:
        """Whether an answer may be another than the most probable class."""
        return self.sought is not None or self.unsure_below > 0 or self.unknown is not None

    def decide(self, probabilities: Floats, belonging: Floats | None = None) -> NDArray[np.intp]:
        """The class number of each row, `UNSURE` or `NONE_OF_THESE`.

        A class that is sought goes first: its promise holds with the others.
        """
        answers = probabilities.argmax(axis=1)
        answers[probabilities.max(axis=1) < self.unsure_below] = UNSURE
        if self.unknown is not None and belonging is not None:
            answers[refused(belonging, self.unknown)] = NONE_OF_THESE
        if self.sought is not None:
            number, threshold = self.sought
            answers[probabilities[:, number] >= threshold] = number
        return answers


@dataclass(frozen=True)
class Decided:
    """What a threshold for the confidence does with labelled images."""

    images: int
    decided: int
    correct: int

    @property
    def share(self) -> float:
        """Of the images, those that are decided."""
        return self.decided / max(self.images, 1)

    @property
    def precision(self) -> Interval:
        """Of those that are decided, the share that is correct."""
        return wilson(self.correct, self.decided)


@dataclass(frozen=True)
class Called:
    """What answering a class from a threshold on does with labelled images."""

    class_images: int
    found: int
    other_images: int
    false_alarms: int

    @property
    def recall(self) -> Interval:
        """Of the images of the class, those that are found."""
        return wilson(self.found, self.class_images)

    @property
    def precision(self) -> float | None:
        """Of the images called so, those of the class."""
        called = self.found + self.false_alarms
        return self.found / called if called else None

    @property
    def alarms_per_100(self) -> float:
        """False alarms for 100 images of other classes."""
        return 100 * self.false_alarms / max(self.other_images, 1)


@dataclass(frozen=True)
class PrecisionTarget:
    """At least this share of what is decided shall be correct."""

    precision: float

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise ValueError(
                f"a precision lies between 0 and 1, such as 0.99: got {self.precision:g}. Nothing is "
                "correct for certain"
            )

    def __str__(self) -> str:
        return f"{percent(self.precision)} correct"

    def threshold(self, predictions: Predictions) -> Threshold:
        """The confidence from which on it holds."""
        return precision_threshold(
            predictions.confidence, predictions.correct, self.precision, predictions.independent
        )

    def measure(self, predictions: Predictions, threshold: float) -> Decided:
        """What the threshold does with these images."""
        decided = predictions.confidence >= threshold
        return Decided(len(decided), int(decided.sum()), int((decided & predictions.correct).sum()))


@dataclass(frozen=True)
class MissTarget:
    """At most this share of a class shall be missed."""

    name: str
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(
                f"the share of {self.name!r} that may be missed lies between 0 and 1, such as 0.01: "
                f"got {self.share:g}"
            )

    def __str__(self) -> str:
        return f"at most {percent(self.share)} of {self.name!r} missed"

    @classmethod
    def parse(cls, text: str) -> MissTarget:
        """From "crack=0.01"; ValueError says how to write it."""
        name, _, share = text.rpartition("=")
        try:
            number = float(share)
        except ValueError:
            number = math.nan
        if not name or math.isnan(number):
            raise ValueError(f"write CLASS=SHARE, such as crack=0.01: got {text!r}")
        return cls(name, number)

    def number(self, classes: NDArray[Any]) -> int:
        """Of the class; ValueError if it is none of these."""
        names = classes.astype(str).tolist()
        if self.name not in names:
            known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"the model knows no class {self.name!r}, only {known}")
        return names.index(self.name)

    def threshold(self, predictions: Predictions) -> Threshold:
        """The probability of the class from which on it is the answer."""
        number = self.number(predictions.classes)
        probability = predictions.probabilities[predictions.labels == number, number]
        return recall_threshold(probability, self.share, predictions.independent)

    def measure(self, predictions: Predictions, threshold: float) -> Called:
        """What the threshold does with these images."""
        number = self.number(predictions.classes)
        called = DecisionRule(sought=(number, threshold)).decide(predictions.probabilities) == number
        of_class = predictions.labels == number
        return Called(
            int(of_class.sum()),
            int((called & of_class).sum()),
            int((~of_class).sum()),
            int((called & ~of_class).sum()),
        )


Target = PrecisionTarget | MissTarget


def percent(share: float) -> str:
    """0.99 as "99 %", 0.995 as "99.5 %"."""
    return f"{100 * share:.6g} %"
