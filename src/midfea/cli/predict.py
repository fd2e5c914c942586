"""`midfea predict`: what the images show."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import Jobs, Model, load_classifier, print_table, read_for, warn_skipped


class Format(StrEnum):
    table = "table"
    csv = "csv"
    json = "json"


def predict(
    model: Model,
    places: Annotated[
        list[Path], typer.Argument(help="Images, or folders of images.", show_default=False)
    ],
    format: Annotated[Format, typer.Option(help="json: one JSON object a line.")] = Format.table,
    jobs: Jobs = None,
) -> None:
    """Say what each image shows, and how sure the model is.

    Files that cannot be read are named on standard error; the exit code is then 1.

    Example: midfea predict pets.midfea new/ cat.jpg --format csv > answers.csv
    """
    from midfea.datasets.folder import find_images
    from midfea.progress import progress_bars

    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    paths = find_images(places)
    if not paths:
        raise ValueError(f"no images in {', '.join(map(str, places))}")
    with progress_bars():
        images, kept, skipped = read_for(classifier, paths)
        probabilities = classifier.predict_proba(images) if images else []
    best = [(classifier.classes_[p.argmax()], float(p.max())) for p in probabilities]
    if format is Format.table:
        rows = [(str(f), str(label), f"{p:.1%}") for f, (label, p) in zip(kept, best, strict=True)]
        if rows:
            print_table(("file", "class", "probability"), rows)
    elif format is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(["file", "class", "probability"])
        for file, (label, p) in zip(kept, best, strict=True):
            writer.writerow([file, label, f"{p:.6f}"])
    else:
        names = [str(label) for label in classifier.classes_]
        for file, (label, p), row in zip(kept, best, probabilities, strict=True):
            line = {"file": str(file), "class": str(label), "probability": round(p, 6)}
            line["probabilities"] = dict(zip(names, row.round(6).tolist(), strict=True))
            print(json.dumps(line))
    warn_skipped(skipped, len(paths))
    if skipped:
        raise typer.Exit(1)
