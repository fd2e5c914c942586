"""`midfea predict`: the classes of images."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from midfea.cli.common import (
    check_outputs,
    expected_prediction,
    load_classifier,
    print_table,
    read_for,
    warn_skipped,
)
from midfea.cli.options import Jobs, Model, SkippedFile

UNSURE = "unsure"
Format = StrEnum("Format", ["table", "csv", "json"])


class Answer(NamedTuple):
    """The class of an image, or "unsure"; all classes with their probabilities, most probable first."""

    file: str
    label: str
    ranked: list[tuple[str, float]]


def predict(
    model: Model,
    places: Annotated[
        list[str],
        typer.Argument(
            help="Images, folders of images, patterns such as 'new/*.jpg', or - for file names on "
            "standard input, one a line.",
            show_default=False,
        ),
    ],
    format: Annotated[Format, typer.Option(help="json: one JSON object a line.")] = Format.table,
    top: Annotated[int, typer.Option(help="The N most probable classes of each image.", min=1)] = 1,
    threshold: Annotated[
        float,
        typer.Option(
            metavar="P", help=f'Print "{UNSURE}" below this probability (0 to 1).', min=0.0, max=1.0
        ),
    ] = 0.0,
    skipped: SkippedFile = None,
    jobs: Jobs = None,
) -> None:
    """Predict the class of each image, with its probability.

    Files that cannot be read are named on standard error, the others are
    predicted, and the exit code is 1.

    Examples:

        midfea predict pets.midfea cat.jpg new/
        midfea predict pets.midfea 'new/**/*.jpg' --top 3
        find new -name '*.png' | midfea predict pets.midfea - --format csv > answers.csv
        midfea predict pets.midfea new --threshold 0.8 --format json
    """
    from midfea.datasets.folder import search_images
    from midfea.progress import expect, progress_bars

    check_outputs(skipped)
    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    named = [name for place in places for name in (_names() if place == "-" else [place])]
    paths, left_out = search_images(named)
    if not paths:
        warn_skipped(left_out, len(left_out), skipped)
        raise ValueError(f"no images in {', '.join(places)}")
    with progress_bars():
        expect(lambda: expected_prediction(classifier, paths))
        images, kept, unreadable = read_for(classifier, paths)
        probabilities: Any = classifier.predict_proba(images) if images else []
    names = [str(label) for label in classifier.classes_]
    answers = [
        _answer(file, row, names, threshold) for file, row in zip(kept, probabilities, strict=True)
    ]
    top = min(top, len(names))
    if format is Format.json:
        _print_json(answers, names, top)
    elif format is Format.csv:
        _print_csv(answers, top, threshold)
    elif answers:
        _print_table(answers, top, threshold)
    left_out += unreadable
    warn_skipped(left_out, len(kept) + len(left_out), skipped)
    if left_out:
        raise typer.Exit(1)


def _names() -> list[str]:
    """File names from standard input, one a line."""
    given = sys.stdin.buffer.read()
    if b"\0" in given:
        raise ValueError(
            "standard input holds no text: - reads file names, one a line, not the images themselves"
        )
    return [line for line in os.fsdecode(given).splitlines() if line.strip()]


def _answer(file: Path, row: Any, names: Sequence[str], threshold: float) -> Answer:
    ranked = [(names[i], float(row[i])) for i in (-row).argsort(kind="stable")]
    return Answer(str(file), ranked[0][0] if ranked[0][1] >= threshold else UNSURE, ranked)


def _print_csv(answers: Sequence[Answer], top: int, threshold: float) -> None:
    """A row for each image: the class and the highest probability, then the most probable classes."""
    columns = ["file", "class", "probability"]
    if top > 1:
        columns += [f"{what} {i}" for i in range(1, top + 1) for what in ("class", "probability")]
    elif threshold:
        columns.append("most probable")
    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    for file, label, ranked in answers:
        cells = [file, label, f"{ranked[0][1]:.6f}"]
        if top > 1:
            cells += [cell for name, p in ranked[:top] for cell in (name, f"{p:.6f}")]
        elif threshold:
            cells.append(ranked[0][0])
        writer.writerow(cells)


def _print_table(answers: Sequence[Answer], top: int, threshold: float) -> None:
    if top > 1:
        columns = ["file", "class", *(f"{i}." for i in range(1, top + 1))]
        rows = [[a.file, a.label, *(f"{name} {p:.1%}" for name, p in a.ranked[:top])] for a in answers]
    else:
        columns = ["file", "class", "probability"]
        rows = [[a.file, a.label, f"{a.ranked[0][1]:.1%}"] for a in answers]
        if threshold:
            columns.append("most probable")
            rows = [[*row, a.ranked[0][0]] for row, a in zip(rows, answers, strict=True)]
    print_table(columns, rows)


def _print_json(answers: Sequence[Answer], names: Sequence[str], top: int) -> None:
    for file, label, ranked in answers:
        rounded = {name: round(p, 6) for name, p in ranked}
        line = {
            "file": file,
            "class": label,
            "probability": round(ranked[0][1], 6),
            "top": [{"class": name, "probability": rounded[name]} for name, _ in ranked[:top]],
            "probabilities": {name: rounded[name] for name in names},
        }
        print(json.dumps(line))
