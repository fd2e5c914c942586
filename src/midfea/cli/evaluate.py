"""`midfea evaluate`: how often a model is right on labelled images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from midfea.cli.common import (
    Folder,
    Jobs,
    Model,
    Report,
    load_classifier,
    print_table,
    warn_skipped,
)

N_PAIRS = 5


def evaluate(
    model: Model,
    folder: Folder,
    report: Report = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers to this file.")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Compare a model's answers with the labels of a folder it was not trained on.

    The folder holds one folder of images for each class, named as in training.
    Classes may be missing. The 95 % interval says how far the accuracy on
    other images of the same kind may lie from the one found.

    Examples:

        midfea evaluate pets.midfea held-out
        midfea evaluate pets.midfea held-out --report report.html --json numbers.json
    """
    from midfea.datasets import load_folder
    from midfea.files import check_writable
    from midfea.learning.interval import wilson
    from midfea.progress import progress_bars
    from midfea.report import Answers, Facts, write_report

    for path in (report, json_file):
        if path is not None:
            check_writable(path)
    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    with progress_bars():
        data = load_folder(
            folder,
            max_side=classifier.settings_["max_side"],
            min_side=classifier.min_side,
            thumbnails=report is not None,
        )
        warn_skipped(data.skipped, len(data.paths) + len(data.skipped))
        _check_labels(data.target, classifier.classes_, folder)
        probabilities = classifier.predict_proba(data.images)
    classes = classifier.classes_.astype(str)
    answers = Answers(
        labels=data.target,
        predicted=classes[probabilities.argmax(axis=1)],
        classes=classes,
        probabilities=probabilities,
        images=data.images,
        thumbnails=data.thumbnails,
        names=[str(path.relative_to(folder)) for path in data.paths],
    )
    interval = wilson(int(answers.right.sum()), len(answers.right))
    rows = _class_rows(answers)
    pairs = [
        (f"{classes[pair.shown]} taken for {classes[pair.said]}", str(pair.images), f"{pair.share:.1%}")
        for pair in answers.confused_pairs(N_PAIRS)
    ]
    print_table(
        ("class", "images", "told rightly", "right when told"),
        [(r["class"], str(r["images"]), _share(r["recall"]), _share(r["precision"])) for r in rows],
    )
    if pairs:
        print_table(("most confused", "images", "of its class"), pairs)
    mean = sum(r["recall"] for r in rows) / len(rows)
    print(f"Accuracy: {interval} of {len(answers.right)} images, mean over classes {mean:.1%}")
    if json_file is not None:
        _write_json(json_file, answers, interval, rows, mean)
        print(f"Numbers: {json_file}")
    if report is not None:
        facts = Facts(
            title=folder.resolve().name,
            interval=interval,
            how=f"Found on {len(answers.right)} images that were not trained on, with {model.name}.",
        )
        with progress_bars():
            write_report(report, classifier, answers, facts)
        print(f"Report: {report}")


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


def _class_rows(answers: Any) -> list[dict[str, Any]]:
    """Of the classes that the folder has."""
    counts = answers.confusion
    rows = []
    for i, name in enumerate(answers.classes):
        shown, said, right = int(counts[i].sum()), int(counts[:, i].sum()), int(counts[i, i])
        if shown:
            precision = right / said if said else None
            row = {"class": str(name), "images": shown, "recall": right / shown, "precision": precision}
            rows.append(row)
    return rows


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _write_json(
    path: Path, answers: Any, interval: Any, rows: list[dict[str, Any]], mean: float
) -> None:
    from midfea.files import replacing

    numbers = {
        "images": len(answers.right),
        "right": int(answers.right.sum()),
        "accuracy": interval.accuracy,
        "interval": [interval.low, interval.high],
        "mean_per_class_accuracy": mean,
        "classes": rows,
        "confused_pairs": [
            {
                "class": str(answers.classes[pair.shown]),
                "taken_for": str(answers.classes[pair.said]),
                "images": pair.images,
            }
            for pair in answers.confused_pairs(N_PAIRS)
        ],
        "confusion": answers.confusion.tolist(),
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(numbers, indent=1) + "\n")
