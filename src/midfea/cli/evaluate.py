"""`midfea evaluate`: accuracy, recall and precision of a model on labelled images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midfea.cli.common import (
    check_outputs,
    expected_prediction,
    load_classifier,
    print_table,
    read_folder,
)
from midfea.cli.options import Folder, Jobs, Missed, Model, Precisions, Report, SkippedFile
from midfea.cli.results import print_accuracy, print_classes, read_targets, validation_of
from midfea.provenance import command_line

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from midfea.learning.decisions import Target, Threshold
    from midfea.learning.interval import Interval
    from midfea.learning.predictions import Predictions

N_PAIRS = 5


def evaluate(
    model: Model,
    folder: Folder,
    report: Report = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers to this file.")
    ] = None,
    precision: Precisions = None,
    miss: Missed = None,
    skipped: SkippedFile = None,
    jobs: Jobs = None,
) -> None:
    """Compare a model's predictions with the labels of a folder it was not trained on.

    The folder holds one folder of images for each class, named as in training.
    Classes may be missing. The 95 % interval says how far the accuracy on
    other images of the same kind may lie from the one measured.

    With --precision and --miss it measures what thresholds bring. They are
    those that the model's own validation promises; an ONNX file holds none, so
    there they are chosen on these images.

    Examples:

        midfea evaluate pets.midfea test-photos
        midfea evaluate pets.midfea test-photos --report report.html --json numbers.json
        midfea evaluate walls.midfea test-photos --precision 0.99 --miss crack=0.01
    """
    from midfea.datasets.folder import find_images
    from midfea.learning.interval import wilson
    from midfea.learning.predictions import Predictions
    from midfea.progress import expect, progress_bars
    from midfea.report import Facts, Gallery, write_report

    check_outputs(report, json_file, skipped)
    classifier = load_classifier(model, [folder])
    classifier.n_jobs = jobs
    targets = read_targets(precision, miss, classifier.classes_)
    with progress_bars():
        expect(lambda: expected_prediction(classifier, find_images([folder])))
        data = read_folder(folder, classifier, report is not None, skipped, testing=True)
        _check_labels(data, classifier.classes_)
        images = data.paths if classifier.reads_files else data.images
        probabilities = classifier.predict_proba(images)
    classes = classifier.classes_.astype(str)
    predictions = Predictions.of_test_set(data.target, probabilities, classes)
    n_images = len(predictions.labels)
    interval = wilson(int(predictions.correct.sum()), n_images)
    _print_result(predictions, interval)
    basis = validation_of(classifier)
    thresholds = [target.threshold(predictions if basis is None else basis) for target in targets]
    if targets:
        _print_targets(targets, thresholds, predictions, of_model=basis is not None)
    if json_file is not None:
        results = _targets_json(targets, thresholds, predictions)
        _write_json(json_file, predictions, interval, results)
        print(f"Numbers: {json_file}")
    if report is not None:
        facts = Facts(
            title=folder.resolve().name,
            interval=interval,
            how=f"Measured on {n_images} images that were not trained on, with {model.name}.",
            skipped=[(str(file), reason) for file, reason in data.skipped],
        )
        names = [str(path.relative_to(folder)) for path in data.paths]
        with progress_bars():
            gallery = Gallery(data.images, data.thumbnails, names)
            write_report(report, classifier, predictions, gallery, facts)
        print(f"Report: {report}")


def _print_result(predictions: Predictions, interval: Interval) -> None:
    print_classes(predictions)
    names = predictions.classes
    pairs = [
        (f"{names[p.label]} predicted as {names[p.predicted]}", str(p.images), f"{p.share:.1%}")
        for p in predictions.confused_pairs(N_PAIRS)
    ]
    if pairs:
        print_table(("most confused", "images", "of its class"), pairs)
    n_images = len(predictions.labels)
    print_accuracy(f"Accuracy: {interval} of {n_images} images", predictions)


def _print_targets(
    targets: Sequence[Target], thresholds: Sequence[Threshold], predictions: Predictions, of_model: bool
) -> None:
    from midfea.view.decisions import measured

    where = "the model's validation" if of_model else "these images: the model's file has no validation"
    print(f"Targets, with thresholds from {where}:")
    for target, threshold in zip(targets, thresholds, strict=True):
        print(f"  {measured(target, threshold, predictions)}")


def _targets_json(
    targets: Sequence[Target], thresholds: Sequence[Threshold], predictions: Predictions
) -> list[dict[str, Any]]:
    rows = []
    for target, threshold in zip(targets, thresholds, strict=True):
        row = asdict(target) | {"threshold": threshold.value, "reason": threshold.reason or None}
        if threshold.value is not None:
            row |= asdict(target.measure(predictions, threshold.value))
        rows.append(row)
    return rows


def _check_labels(data: Bunch, classes: Any) -> None:
    from midfea.datasets.diagnosis import nested_classes

    folder = data.tree.path
    if not len(data.target):
        raise ValueError(f"{folder}: no usable image")
    known = {str(label) for label in classes}
    strange = sorted(set(data.target.tolist()) - known)
    for path, inside in nested_classes(data.tree) if strange else []:
        if set(inside) <= known:
            listed, line = ", ".join(inside), command_line({folder: path})
            raise ValueError(f"{folder}: the classes ({listed}) lie deeper, in {path}. Type: {line}")
    if strange:
        raise ValueError(
            f"{folder}: the model knows no class {', '.join(map(repr, strange))}, only "
            f"{', '.join(sorted(known))}. Rename or remove those folders"
        )


def _write_json(
    path: Path, predictions: Predictions, interval: Interval, targets: list[dict[str, Any]]
) -> None:
    from midfea.files import replacing

    classes = [str(name) for name in predictions.classes]
    numbers = {
        "images": len(predictions.labels),
        "correct": int(predictions.correct.sum()),
        "accuracy": interval.accuracy,
        "interval": [interval.low, interval.high],
        "mean_recall": predictions.mean_recall,
        "mean_recall_interval": predictions.mean_recall_interval[1:],
        "baseline": predictions.baseline and predictions.baseline._asdict(),
        "classes": [
            {"class": row.name, "images": row.images, "recall": row.recall, "precision": row.precision}
            for row in predictions.per_class
            if row.images
        ],
        "confused_pairs": [
            {"class": classes[p.label], "predicted": classes[p.predicted], "images": p.images}
            for p in predictions.confused_pairs(N_PAIRS)
        ],
        "confusion": predictions.confusion.tolist(),
        "targets": targets,
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(numbers, indent=1) + "\n")
