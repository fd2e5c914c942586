"""One fraction for a training of many steps, so that the time left can be told.

The seconds are those of two cores. Only their ratios matter: how fast the machine is shows itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from midfea.estimators import choices
from midfea.estimators.finetuned import FEW, MIRRORED, N_FOLDS, copies_seen

Told = Callable[[str, float], None]  # the step in words, the fraction done

WORDS = {
    "reading files": "Reading images",
    "reading": "Reading images",
    "settings": "Trying settings",
    "filters": "Learning filters",
    "describing": "Describing images",
    "words": "Learning words",
    "principal directions": "Describing images",
    "features": "Computing features",
    "classifier": "Learning to tell classes apart",
    "neuron selectivity": "Learning neurons",
    "small copies": "Fine-tuning",
    "fine-tuning, trial 1": "Fine-tuning, first trial",
    "fine-tuning, trial 2": "Fine-tuning, second trial",
    **{f"fine-tuning, part {i}": "Fine-tuning, other parts held out" for i in range(2, N_FOLDS + 1)},
    "fine-tuning": "Fine-tuning",
    "checking": "Checking with images held out",
    "learning curve": "Would more images help?",
}
COPIES_A_SECOND = 350  # that fine-tuning sees
OFTEN = 0.1  # s between two reports of one step


# Steps whose parts are steps themselves: a model is fitted for each setting that is tried, a layer of
# neurons for each part held out.
WITHIN = {
    "settings": {
        "reading": 0.1,
        "filters": 0.5,
        "describing": 1.0,
        "words": 1.0,
        "features": 3.0,
        "classifier": 0.5,
    },
    "classifier": {"neuron selectivity": 1.0},
}


class Steps:
    """Takes reports of `midfea.progress`, tells a step in words and a growing fraction."""

    def __init__(self, seconds: dict[str, float], tell: Told) -> None:
        self._seconds, self._tell = seconds, tell
        self._order, self._at = list(seconds), 0
        self._share = 0.0  # of the step that we are at
        self._inner: Steps | None = None
        self._parts = (0, 1)  # of that step: done, in all
        self._told, self._step = 0.0, ""

    def report(self, what: str, done: int, total: int) -> None:
        """For `midfea.progress.reporting_to`."""
        if self._inner is not None and what in self._inner._order:
            self._inner.report(what, done, total)
        elif what in self._order[self._at :]:  # one that was passed is done again as a part of others
            self._parts = done, max(total, 1)
            nested = what in WITHIN and done < total
            self._inner = Steps(WITHIN[what], self._tell_part) if nested else None
            self._go_to(what, done / max(total, 1))

    def _tell_part(self, _: str, share: float) -> None:
        done, total = self._parts
        self._go_to(self._order[self._at], min((done + share) / total, 1.0))

    def _go_to(self, what: str, share: float) -> None:
        before, self._at = self._at, self._order.index(what)
        self._share = max(share, self._share) if self._at == before else share
        now, step = time.monotonic(), WORDS[what]
        if step != self._step or now - self._told > OFTEN:
            self._told, self._step = now, step
            self._tell(step, self._fraction())

    def _fraction(self) -> float:
        seconds = list(self._seconds.values())
        spent = sum(seconds[: self._at]) + self._share * seconds[self._at]
        return min(spent / sum(seconds), 0.999)


def expected(
    n_images: int, n_new: int, n_classes: int, preset: str, neurons: int, finetune: bool, learn: bool
) -> dict[str, float]:
    """Roughly how long each step takes, in the order of the steps.

    n_new : images whose features are to be computed
    learn : whether filters and words are learned
    """
    harder = {"fast": 1.0, "paper": 1.5, "best": 6.0}.get(preset, 1.0)
    svm = (n_images / 2000) ** 2 * (n_classes / 10)
    seconds = {"reading files": 0.5 + 0.001 * n_new}
    if learn:
        if preset != "paper":
            seconds["settings"] = 1.5 + 0.015 * min(n_images, choices.N_IMAGES)
        seconds |= {
            "reading": 0.1,
            "filters": 0.7,
            "describing": 0.001 * min(n_images, 1000) * harder,
            "words": 4.0 * harder,
        }
    seconds |= {"features": 0.2 + 0.004 * n_new * harder, "classifier": 0.2 + 4 * svm}
    if neurons:
        seconds["classifier"] += 0.02 * neurons * (1 + n_images / 500)
        seconds["neuron selectivity"] = 0.01 * neurons * (1 + n_images / 500)
    if finetune:
        tried = [f"trial {i + 1}" for i in range(len(MIRRORED))]
        if n_images / N_FOLDS < FEW:
            tried += [f"part {i}" for i in range(2, N_FOLDS + 1)]
        each = copies_seen(n_images) / 2 / len(MIRRORED) / COPIES_A_SECOND
        seconds |= {f"fine-tuning, {name}": each for name in tried}
        seconds["fine-tuning"] = copies_seen(n_images, n_images / n_classes) / COPIES_A_SECOND
    seconds["checking"] = 0.2 + 3 * svm
    return seconds | {"learning curve": 0.1 + 1.5 * svm}
