"""One fraction for a training of many steps, so that the time left can be told.

The seconds are those of two cores. Only their ratios matter: how fast the machine is shows itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Told = Callable[[str, float], None]  # the step in words, the fraction done

WORDS = {
    "reading files": "Reading images",
    "reading": "Reading images",
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
    "fine-tuning, trial 3": "Fine-tuning, third trial",
    "fine-tuning": "Fine-tuning",
    "checking": "Checking with images held out",
    "learning curve": "Would more images help?",
}
OFTEN = 0.1  # s between two reports of one step


class Steps:
    """Takes reports of `midfea.progress`, tells a step in words and a growing fraction."""

    def __init__(self, seconds: dict[str, float], tell: Told) -> None:
        self._seconds, self._tell = seconds, tell
        self._done = dict.fromkeys(seconds, 0.0)
        self._order = list(seconds)
        self._fraction, self._told, self._step = 0.0, 0.0, ""

    def report(self, what: str, done: int, total: int) -> None:
        """For `midfea.progress.reporting_to`."""
        if what in self._done:
            share = done / total if total else 1.0
            self._done[what] = max(self._done[what], share)
            for before in self._order[: self._order.index(what)]:
                self._done[before] = 1.0  # left out, or over without a word
        spent = sum(self._seconds[name] * share for name, share in self._done.items())
        self._fraction = max(self._fraction, min(spent / sum(self._seconds.values()), 0.999))
        now, step = time.monotonic(), WORDS.get(what, what)
        if step != self._step or now - self._told > OFTEN:
            self._told, self._step = now, step
            self._tell(step, self._fraction)


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
        seconds |= {
            "filters": 0.7,
            "describing": 0.001 * min(n_images, 1000) * harder,
            "words": 4.0 * harder,
        }
    seconds |= {"features": 0.2 + 0.004 * n_new * harder, "classifier": 0.2 + 3 * svm}
    if neurons:
        seconds["classifier"] += 0.02 * neurons * (1 + n_images / 500)
        seconds["neuron selectivity"] = 0.01 * neurons * (1 + n_images / 500)
    if finetune:
        whole = 60 + 0.12 * n_images
        seconds |= {f"fine-tuning, trial {i}": 0.2 * whole for i in (1, 2, 3)}
        seconds["fine-tuning"] = 0.4 * whole
    seconds["checking"] = 0.2 + 3 * svm
    return seconds | {"learning curve": 0.1 + 1.5 * svm}
