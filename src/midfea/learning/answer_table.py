"""`AnswerTable`: what is answered of many images, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midfea.learning.decisions import DecisionRule

UNSURE, NONE_OF_THESE = "unsure", "none of these"  # in place of a class

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """A row for each of n images.

    Attributes
    ----------
    names : of the classes
    labels : (n,), the class, `UNSURE` or `NONE_OF_THESE`
    probability : (n,), of the class; the highest one, if there is none
    ranked : (n, n_classes), numbers of the classes, most probable first
    probabilities : (n, n_classes)
    belonging : (n,), how much each looks like images of the classes; NaN if that is not known
    may_differ : an answer may be another than the most probable class
    """

    names: Texts
    labels: Texts
    probability: Floats
    ranked: NDArray[np.intp]
    probabilities: Floats
    belonging: Floats
    may_differ: bool

    @classmethod
    def of(
        cls, probabilities: Floats, belonging: Floats, names: Sequence[str], rule: DecisionRule
    ) -> AnswerTable:
        """The answers that a rule makes of probabilities (n, n_classes) and belonging (n,)."""
        decided = rule.decide(probabilities, belonging)
        ranked = np.argsort(-probabilities, axis=1, kind="stable")
        spoken_of = np.where(decided >= 0, decided, ranked[:, 0])[:, None]
        probability = np.take_along_axis(probabilities, spoken_of, axis=1)[:, 0]
        # The numbers of the last two count from the end.
        texts = np.array([*names, NONE_OF_THESE, UNSURE], dtype=object)
        return cls(
            texts[:-2], texts[decided], probability, ranked, probabilities, belonging, rule.may_differ
        )

    def columns(self, files: Sequence[str], top: int) -> dict[str, Texts | Floats]:
        """The columns of a file: of each image the class, and the `top` most probable classes."""
        columns: dict[str, Texts | Floats] = {
            "file": np.array(files, dtype=object),
            "class": self.labels,
            "probability": self.probability,
        }
        if top > 1:
            for place in range(min(top, len(self.names))):
                classes = self.ranked[:, place]
                columns[f"class {place + 1}"] = self.names[classes]
                columns[f"probability {place + 1}"] = np.take_along_axis(
                    self.probabilities, classes[:, None], axis=1
                )[:, 0]
        elif self.may_differ:
            columns["most probable"] = self.names[self.ranked[:, 0]]
        return columns | {"belonging": self.belonging}


def cells(column: Texts | Floats) -> list[str]:
    """A column as it is written in a CSV file; empty cells for NaN."""
    if column.dtype == object:
        return [str(text) for text in column]
    return ["" if np.isnan(number) else f"{number:.6f}" for number in column]
