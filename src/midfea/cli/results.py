"""What `train`, `evaluate` and `info` print of predictions: recall and precision, targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from midfea.cli.common import print_table

if TYPE_CHECKING:
    from pathlib import Path

    from midfea.learning.decisions import Target
    from midfea.learning.interval import Interval
    from midfea.learning.predictions import Predictions

N_CLASSES_SHOWN = 12


def print_classes(predictions: Predictions, all_are: str = "") -> None:
    """Recall and precision; of many classes those with the lowest recall, and where all are."""
    from midfea.view.confusion import share

    rows = [row for row in predictions.per_class if row.images]
    if all_are and len(rows) > N_CLASSES_SHOWN:
        rows = predictions.worst_classes(N_CLASSES_SHOWN)
        print(f"The {N_CLASSES_SHOWN} classes with the lowest recall ({all_are} shows all):")
    cells = [
        (
            row.name,
            f"{row.images:,}",
            share(row.recall),
            f"{100 * row.interval.low:.0f} to {100 * row.interval.high:.0f} %",
            share(row.precision),
        )
        for row in rows
    ]
    print_table(("class", "images", "recall", "95 % interval", "precision"), cells)


def print_accuracy(accuracy: str, predictions: Predictions) -> None:
    """The accuracy, the mean recall and what guessing brings; first the one that says more."""
    mean_recall, guessing = predictions.beyond_accuracy
    lines = [mean_recall, accuracy] if predictions.unequal else [accuracy, mean_recall]
    print("\n".join([*lines, guessing]))


def read_targets(precisions: Sequence[float] | None, missed: Sequence[str] | None) -> list[Target]:
    """The targets of `--precision` and `--miss`."""
    from midfea.learning.decisions import MissTarget, PrecisionTarget

    targets: list[Target] = [PrecisionTarget(share) for share in precisions or []]
    return targets + [MissTarget.parse(text) for text in missed or []]


def print_best_promise(predictions: Predictions, model: Path) -> None:
    """How many images can be decided at the highest of the usual precisions, and how."""
    from midfea.learning.decisions import percent
    from midfea.view.decisions import PRECISIONS, best_promise, looked_at

    best = best_promise(predictions)
    if best is None:
        target = f"{percent(PRECISIONS[-1])} correct"
        print(f"No part of the images can be decided with a promise of {target}.")
        return
    target, threshold = best
    decided = target.measure(predictions, threshold)
    print(f"{decided.share:.0%} of new images can be decided at {target}{looked_at(decided)}.")
    if threshold:
        print(f"  (midfea predict {model} PHOTOS --threshold {threshold:g})")
