"""`midfea predict`: the classes of images."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from midfea.cli.common import Jobs, Model, load_classifier, print_table, read_for, warn_skipped

UNSURE = "unsure"


class Format(StrEnum):
    """How answers are printed."""

    table = "table"
    csv = "csv"
    json = "json"


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
    from midfea.datasets.folder import find_images
    from midfea.progress import progress_bars

    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    named = [name for place in places for name in (_names() if place == "-" else [place])]
    paths = find_images(named)
    if not paths:
        raise ValueError(f"no images in {', '.join(places)}")
    with progress_bars():
        images, kept, skipped = read_for(classifier, paths)
        probabilities: Any = classifier.predict_proba(images) if images else []
    names = [str(label) for label in classifier.classes_]
    top = min(top, len(names))
    if format is Format.json:
        _print_json(kept, probabilities, names, top, threshold)
    elif images or format is Format.csv:
        _print_rows(format, kept, probabilities, names, top, threshold)
    warn_skipped(skipped, len(paths))
    if skipped:
        raise typer.Exit(1)


def _names() -> list[str]:
    """File names from standard input, one a line."""
    given = sys.stdin.buffer.read()
    if b"\0" in given:
        raise ValueError(
            "standard input holds no text: - reads file names, one a line, not the images themselves"
        )
    return [line for line in os.fsdecode(given).splitlines() if line.strip()]


def _best(row: Any, names: Sequence[str], top: int, threshold: float) -> tuple[str, list[Any]]:
    """The answer, and the most probable classes with their probabilities."""
    order = (-row).argsort(kind="stable")[:top]
    ranked = [(names[i], float(row[i])) for i in order]
    return (ranked[0][0] if ranked[0][1] >= threshold else UNSURE), ranked


def _print_rows(
    format: Format,
    files: Sequence[Path],
    probabilities: Any,
    names: Sequence[str],
    top: int,
    threshold: float,
) -> None:
    """A row for each image: the answer and its probability, then the next classes and theirs."""
    columns = ["file", "class", "probability"]
    if threshold and top == 1:
        columns.append("most probable")
    if top > 1:
        columns += [f"{what} {i}" for i in range(1, top + 1) for what in ("class", "probability")]
    as_text = "{:.6f}".format if format is Format.csv else "{:.1%}".format
    rows = []
    for file, row in zip(files, probabilities, strict=True):
        answer, ranked = _best(row, names, top, threshold)
        cells = [str(file), answer, as_text(ranked[0][1])]
        if threshold and top == 1:
            cells.append(ranked[0][0])
        if top > 1:
            cells += [cell for name, p in ranked for cell in (name, as_text(p))]
        rows.append(cells)
    if format is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(columns)
        writer.writerows(rows)
    elif top > 1:
        shown = [
            (
                cells[0],
                cells[1],
                *(f"{name} {p}" for name, p in zip(cells[3::2], cells[4::2], strict=True)),
            )
            for cells in rows
        ]
        print_table(("file", "class", *(f"{i}." for i in range(1, top + 1))), shown)
    else:
        print_table(columns, rows)


def _print_json(
    files: Sequence[Path], probabilities: Any, names: Sequence[str], top: int, threshold: float
) -> None:
    for file, row in zip(files, probabilities, strict=True):
        answer, ranked = _best(row, names, top, threshold)
        line = {
            "file": str(file),
            "class": answer,
            "probability": round(ranked[0][1], 6),
            "top": [{"class": name, "probability": round(p, 6)} for name, p in ranked],
            "probabilities": dict(zip(names, row.round(6).tolist(), strict=True)),
        }
        print(json.dumps(line))
