"""`midfea evaluate`: accuracy, recall and precision of a model on labelled images."""

from __future__ import annotations

import json
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
from midfea.cli.options import Folder, Jobs, Model, Report, SkippedFile

if TYPE_CHECKING:
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
    skipped: SkippedFile = None,
    jobs: Jobs = None,
) -> None:
    """Compare a model's predictions with the labels of a folder it was not trained on.

    The folder holds one folder of images for each class, named as in training.
    Classes may be missing. The 95 % interval says how far the accuracy on
    other images of the same kind may lie from the one measured.

    Examples:

        midfea evaluate pets.midfea test-photos
        midfea evaluate pets.midfea test-photos --report report.html --json numbers.json
    """
    from midfea.datasets.folder import find_images
    from midfea.learning.interval import wilson
    from midfea.learning.predictions import Predictions
    from midfea.progress import expect, progress_bars
    from midfea.report import Facts, Gallery, write_report

    check_outputs(report, json_file, skipped)
    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    with progress_bars():
        expect(lambda: expected_prediction(classifier, find_images([folder])))
        data = read_folder(folder, classifier, report is not None, skipped)
        _check_labels(data.target, classifier.classes_, folder)
        images = data.paths if classifier.reads_files else data.images
        probabilities = classifier.predict_proba(images)
    classes = classifier.classes_.astype(str)
    predictions = Predictions.of_test_set(data.target, probabilities, classes)
    n_images = len(predictions.labels)
    interval = wilson(int(predictions.correct.sum()), n_images)
    _print_result(predictions, interval)
    if json_file is not None:
        _write_json(json_file, predictions, interval)
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
    from midfea.view.confusion import share

    rows = [
        (row.name, str(row.images), share(row.recall), share(row.precision))
        for row in predictions.per_class
        if row.images
    ]
    print_table(("class", "images", "recall", "precision"), rows)
    names = predictions.classes
    pairs = [
        (f"{names[p.label]} predicted as {names[p.predicted]}", str(p.images), f"{p.share:.1%}")
        for p in predictions.confused_pairs(N_PAIRS)
    ]
    if pairs:
        print_table(("most confused", "images", "of its class"), pairs)
    n_images = len(predictions.labels)
    print(f"Accuracy: {interval} of {n_images} images, mean recall {predictions.mean_recall:.1%}")


def _check_labels(target: Any, classes: Any, folder: Path) -> None:
    if not len(target):
        raise ValueError(f"{folder}: no usable image")
    known = {str(label) for label in classes}
    strange = sorted(set(target.tolist()) - known)
    if strange:
        raise ValueError(
            f"{folder}: the model knows no class {', '.join(map(repr, strange))}, only "
            f"{', '.join(sorted(known))}. Rename or remove those folders"
        )


def _write_json(path: Path, predictions: Predictions, interval: Interval) -> None:
    from midfea.files import replacing

    classes = [str(name) for name in predictions.classes]
    numbers = {
        "images": len(predictions.labels),
        "correct": int(predictions.correct.sum()),
        "accuracy": interval.accuracy,
        "interval": [interval.low, interval.high],
        "mean_recall": predictions.mean_recall,
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
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(numbers, indent=1) + "\n")
