"""What `train`, `evaluate` and `info` print of predictions: recall and precision, targets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from midfea.cli.common import print_table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.export.runtime import Predictor
    from midfea.learning.decisions import Target
    from midfea.learning.predictions import Predictions

N_CLASSES_SHOWN = 12
UNKNOWN_SHARE, MAX_UNKNOWN_SHARE = 0.01, 0.1  # of images of the classes, refused wrongly


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


def read_targets(
    precisions: Sequence[float] | None, missed: Sequence[str] | None, classes: NDArray[Any]
) -> list[Target]:
    """The targets of `--precision` and `--miss`; ValueError if one makes no sense for these classes."""
    from midfea.learning.decisions import MissTarget, PrecisionTarget

    targets: list[Target] = [PrecisionTarget(share) for share in precisions or []]
    for written in missed or []:
        target = MissTarget.parse(written)
        target.number(classes)
        targets.append(target)
    return targets


def validation_of(classifier: Predictor) -> Predictions | None:
    """The predictions of a model's validation record; None if its file has none."""
    from midfea.export.runtime import OnnxClassifier
    from midfea.learning.predictions import Predictions

    if isinstance(classifier, OnnxClassifier) or not len(classifier.validation_):
        return None
    return Predictions.of_validation(classifier.validation_, classifier.classes_.astype(str))


def print_promises(predictions: Predictions, model: Path) -> None:
    """What can be decided at the highest of the usual precisions; the cost of finding a rare class."""
    from midfea.learning.decisions import MissTarget
    from midfea.view.decisions import MISSED_SHARES, PRECISIONS, best_promise, promise

    best = best_promise(predictions)
    if best is None:
        print(promise(PRECISIONS[-1], predictions))
    else:
        target, threshold = best
        print(promise(target, predictions))
        if threshold:
            print(f"  (midfea predict {model} PHOTOS --threshold {threshold:g})")
    if predictions.unequal:
        miss = MissTarget(predictions.rarest.name, MISSED_SHARES[0])
        print(promise(miss, predictions))
        if miss.threshold(predictions).value is not None:
            wish = shlex.quote(f"{miss.name}={miss.share:g}")
            print(f"  (midfea predict {model} PHOTOS --miss {wish})")


def print_refusing(model: MidFeaClassifier, path: Path) -> None:
    """How to refuse images of none of the classes, or why that cannot be done."""
    problem = model.problem_with_unknown(UNKNOWN_SHARE)
    share, more = UNKNOWN_SHARE, ""
    if problem:
        smallest = model.smallest_unknown
        if smallest is None or smallest > MAX_UNKNOWN_SHARE:
            print(f"Images of none of the classes cannot be refused: {problem}.")
            return
        share, more = smallest, ", more images allow less"
    print(
        f"Images that look like none of the classes can be refused, at most {100 * share:g} in 100 of "
        f"the classes' own by mistake{more}:\n  (midfea predict {path} PHOTOS --unknown {share:g})"
    )
