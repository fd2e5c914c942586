"""What a training does one after the other: a quick model first, then the most accurate one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated, Literal

from pydantic import Field

from midfea.extras import missing
from midfea.learning.interval import Z


@dataclass(frozen=True)
class TrainingSettings:
    """What the user chooses. `neurons`: of a neuron-selectivity layer, 0 for none.

    preset "auto": `fast` for a first look, then `best` where PyTorch is installed
    """

    preset: Literal["auto", "fast", "best", "paper"] = "auto"
    neurons: Annotated[int, Field(ge=0, le=1000)] = 0
    finetune: bool = False

    def phases(self) -> list[TrainingSettings]:
        """The settings of each model that is trained."""
        if self.preset != "auto":
            return [self]
        fast = replace(self, preset="fast", finetune=False)
        return [fast] if missing("torch") else [fast, replace(self, preset="best")]


@dataclass(frozen=True)
class Comparison:
    """A model beside the one of the phase before, on images that neither of the two had learned from.

    n_differ : images for which exactly one of them was correct
    """

    preset: str
    correct: int
    other_preset: str
    other_correct: int
    images: int
    n_differ: int

    @classmethod
    def of(
        cls, preset: str, correct: Mapping[str, bool], other_preset: str, other: Mapping[str, bool]
    ) -> Comparison:
        """Of two models; for each, images by id and whether the prediction in validation was correct."""
        ids = sorted(correct.keys() & other.keys())
        first, second = ([each[id] for id in ids] for each in (correct, other))
        n_differ = sum(a != b for a, b in zip(first, second, strict=True))
        return cls(preset, sum(first), other_preset, sum(second), len(ids), n_differ)

    @property
    def is_clearly_worse(self) -> bool:
        """Whether the model lost more than chance explains: McNemar's test, 95 %."""
        return self.other_correct - self.correct > Z * sqrt(self.n_differ)
