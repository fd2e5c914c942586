"""`Remaining`: how much of a work is done and how long the rest takes, from reports of its steps.

A plan gives the seconds that each step takes on some machine. The steps that are over tell how this
machine differs, the present step also by its own speed. Without a plan only the present step is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from midfea.progress import Plan

PRIOR_SECONDS = 1.0  # the plan is trusted as if a step of this length had taken as long as planned
PRIOR_SHARE = 0.03  # and for a step's own speed, as if this share of it had
MIN_OVERDUE = 0.2  # what is still to come of a part that is overdue: this share of its time so far
MAX_FRACTION = 0.999  # until the work is over
# How long files take, on whichever disk, does not say how fast the machine is.
SAYS_NO_SPEED = ("reading files", "reading")

LABELS = {
    "reading files": "Reading images",
    "reading": "Reading images",
    "settings": "Trying settings",
    "filters": "Learning filters",
    "describing": "Describing images",
    "words": "Learning words",
    "features": "Computing features",
    "kinds of change": "Trying augmented images",
    "settings of the NS layer": "Trying settings of the neurons",
    "classifier": "Fitting the classifier",
    "neuron selectivity": "Learning neurons",
    "small images": "Preparing the network",
    "network": "Asking the network",
    "learning curve": "Would more images help?",
    "answers": "Predicting",
    "stage maps": "Drawing the stages",
    "extracting": "Computing features",
    "reading features": "Reading features",
    "classifier without those held out": "Fitting the classifier for validation",
    "classifier of all": "Fitting the classifier",
    "predicting": "Predicting",
    "methods": "Comparing methods",
}
WITH_RATE = (
    "extracting",
    "predicting",
)  # steps of many images
UNCOUNTED = (
    "settings",
    "settings of the NS layer",
    "filters",
    "words",
    "classifier",
    "classifier without those held out",
    "classifier of all",
    "neuron selectivity",
    "learning curve",
)


@dataclass(frozen=True)
class State:
    """How far a work is.

    Attributes
    ----------
    step : the present step in words
    done, total : parts of this step; 0 of 0 where their number would say nothing to a reader
    fraction : of the whole work; of the present step, if the whole is not known
    seconds_left : until the end of the same; None if nothing is known yet
    per_second : images of this step; None where it would say nothing to a reader
    """

    step: str
    done: int
    total: int
    fraction: float
    seconds_left: float | None
    per_second: float | None = None


class Remaining:
    """Takes the reports of `midfea.progress.track` and says how much is left; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begun = clock, clock()
        self._lock, self._steps, self._fraction = Lock(), _Steps(), 0.0

    def report(self, what: str, done: int, total: int) -> None:
        """A step has come so far."""
        with self._lock:
            self._steps.report(what, done, total, self._clock())

    def expect(self, plan: Plan) -> None:
        """The steps to come: of the whole, or of the part of a step that is under way."""
        with self._lock:
            self._steps.expect(plan)

    def state(self) -> State:
        """The state now. The fraction never falls, and is the share of the time."""
        with self._lock:
            return self._state(self._clock())

    def _state(self, now: float) -> State:
        present, left = self._steps.present, self._steps.left(now)
        if self._steps.planned and left is not None:
            spent = now - self._begun
            fraction = min(spent / max(spent + left, 1e-9), MAX_FRACTION)
            self._fraction = fraction = max(self._fraction, fraction)
        elif present is not None:
            fraction = present.done / present.total
        else:
            fraction = 0.0
        if present is None:
            return State("Starting", 0, 0, fraction, left)
        name = present.name
        uncounted = present.total == 1 or name.startswith("fine-tuning") or name in UNCOUNTED
        count = (0, 0) if uncounted else (present.done, present.total)
        rate = present.rate if name in WITH_RATE else None
        return State(LABELS.get(name, name.capitalize()), *count, fraction, left, rate)


@dataclass(eq=False)
class _Step:
    """One step; times are those of the clock."""

    name: str
    expected: float = 0.0  # s; 0: not known
    begun: float | None = None
    reported: float = 0.0  # when it was last heard of
    done: int = 0
    total: int = 1

    @property
    def is_over(self) -> bool:
        return self.begun is not None and self.done >= self.total

    @property
    def is_open(self) -> bool:
        return self.begun is not None and self.done < self.total

    def take(self, done: int, total: int, now: float) -> None:
        self.begun = now if self.begun is None else self.begun
        self.done, self.total, self.reported = min(done, max(total, 1)), max(total, 1), now
        if total < 1:
            self.done = self.total

    @property
    def rate(self) -> float | None:
        """Parts done in a second; None if that is not known yet."""
        spent = self.reported - (self.reported if self.begun is None else self.begun)
        return self.done / spent if spent > 0 else None

    @property
    def speed(self) -> tuple[float, float]:
        """Seconds taken and seconds expected of a step, if it says something of the others."""
        if self.begun is None or not self.expected or self.name in SAYS_NO_SPEED:
            return 0.0, 0.0
        return self.reported - self.begun, self.expected


@dataclass(eq=False)
class _Steps:
    """Steps one after the other; a part of the present one can have steps of its own."""

    steps: list[_Step] = field(default_factory=list)
    present: _Step | None = None
    inner: _Steps | None = None

    @property
    def planned(self) -> bool:
        return any(step.expected for step in self.steps)

    @property
    def _present_is_open(self) -> bool:
        return self.present is not None and self.present.is_open

    def _coming(self) -> list[_Step]:
        """The steps after the present one."""
        return self.steps[0 if self.present is None else self.steps.index(self.present) + 1 :]

    def expect(self, plan: Plan) -> None:
        if self._present_is_open:
            self.inner = self.inner or _Steps()
            self.inner.expect(plan)
            return
        names = {name for name, _ in plan}
        coming = self._coming()
        passed = self.steps[: len(self.steps) - len(coming)]
        kept = [step for step in coming if step.name not in names]
        self.steps = [*passed, *(_Step(name, seconds) for name, seconds in plan), *kept]

    def report(self, what: str, done: int, total: int, now: float) -> None:
        present = self.present
        if self._present_is_open and present is not None and present.name != what:
            self.inner = self.inner or _Steps()
            self.inner.report(what, done, total, now)
            return
        if present is None or present.name != what or (present.is_over and done < total):
            coming = self._coming()
            step = next((step for step in coming if step.name == what), None)
            if step is None:  # not in the plan, or once more
                step = _Step(what)
                self.steps.insert(len(self.steps) - len(coming), step)
            self.present = present = step
        self.inner = None
        present.take(done, total, now)

    def left(self, now: float) -> float | None:
        """Seconds until the end; None if not known."""
        speeds = [step.speed for step in self.steps if step.is_over]
        taken = PRIOR_SECONDS + sum(seconds for seconds, _ in speeds)
        expected = PRIOR_SECONDS + sum(seconds for _, seconds in speeds)
        rest, present = 0.0, self.present
        if present is not None and present.is_open and present.begun is not None:
            known = self._left_of(present, taken / expected, now)
            if known is None and not self.planned:
                return None
            rest, spent = known or 0.0, now - present.begun
            if any(present.speed) and spent + rest > 0:
                taken += spent
                expected += present.expected * spent / (spent + rest)
        elif not self.planned:
            return None
        return rest + taken / expected * sum(step.expected for step in self._coming())

    def _left_of(self, step: _Step, slowness: float, now: float) -> float | None:
        """Seconds left of a step under way."""
        assert step.begun is not None
        spent, since = now - step.begun, now - step.reported
        share, part, prior = step.done / step.total, 1 / step.total, slowness * step.expected
        inner = self.inner.left(now) if self.inner is not None and self.inner.planned else None
        if not prior and not share:  # its first part, of unknown length
            return None if inner is None else inner + (step.total - 1) * (spent + inner)
        weight = PRIOR_SHARE if prior else 0.0
        whole = (spent - since + weight * prior) / (share + weight)
        whole = max(whole, (spent + weight * prior) / (share + part + weight))  # it is not there yet
        others = whole * (1 - share - part)
        return others + (max(whole * part - since, MIN_OVERDUE * since) if inner is None else inner)
