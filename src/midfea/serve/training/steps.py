"""The progress of a training as one fraction and the name of the present step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Tell = Callable[[str, float], None]  # the step in words, the fraction done

LABELS = {
    "reading files": "Reading images",
    "reading": "Reading images",
    "settings": "Trying settings",
    "filters": "Learning filters",
    "describing": "Describing images",
    "words": "Learning words",
    "features": "Computing features",
    "classifier": "Fitting the classifier",
    "neuron selectivity": "Learning neurons",
    "checking": "Validating",
    "learning curve": "Would more images help?",
}
REPORT_SECONDS = 0.1  # between two reports of one step
MAX_FRACTION = 0.999  # until the model is in its place


class Steps:
    """Takes reports of `midfea.progress` and tells a label and a growing fraction.

    seconds : expected seconds of each step, in the order of the steps. Only their ratios matter.
    """

    def __init__(self, seconds: Mapping[str, float], tell: Tell) -> None:
        self._seconds, self._tell = dict(seconds), tell
        self._order, self._at = list(seconds), 0
        self._done, self._total = 0, 1  # of the present step
        self._inner: dict[str, float] = {}  # share done of each step inside the present one
        self._label, self._fraction, self._told = "", 0.0, 0.0

    def report(self, what: str, done: int, total: int) -> None:
        """For `midfea.progress.reporting_to`."""
        is_open = self._done < self._total and bool(self._label)
        if is_open and what != self._order[self._at]:
            self._inner[what] = done / max(total, 1)  # steps inside a step, of a model fitted there
        elif what in self._order[self._at :]:
            self._at = self._order.index(what)
            self._done, self._total, self._inner = done, max(total, 1), {}
        self._tell_progress()

    def _tell_progress(self) -> None:
        # How many steps are inside a step is not known: each of them halves what is left.
        inside = 1 - 0.5 ** sum(self._inner.values())
        share = min((self._done + inside) / self._total, 1.0)
        seconds = list(self._seconds.values())
        spent = sum(seconds[: self._at]) + share * seconds[self._at]
        self._fraction = max(self._fraction, min(spent / sum(seconds), MAX_FRACTION))
        name = self._order[self._at]
        label, now = LABELS.get(name, name.capitalize()), time.monotonic()
        if label != self._label or now - self._told > REPORT_SECONDS:
            self._label, self._told = label, now
            self._tell(label, self._fraction)
