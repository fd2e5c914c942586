"""`midfea predict`: the classes of images."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from midfea.cli.common import (
    check_outputs,
    expected_prediction,
    load_classifier,
    print_table,
    read_for,
    warn_skipped,
)
from midfea.cli.options import Jobs, Model, SkippedFile, Unknown
from midfea.cli.results import validation_of

if TYPE_CHECKING:
    from midfea.export.runtime import Predictor
    from midfea.learning.decisions import DecisionRule

UNSURE, NONE_OF_THESE = "unsure", "none of these"
Format = StrEnum("Format", ["table", "csv", "json"])


class Answer(NamedTuple):
    """The class of an image, "unsure" or "none of these"; all classes, most probable first.

    belonging : how much it looks like images of the classes; NaN if that is not known
    """

    file: str
    label: str
    ranked: list[tuple[str, float]]
    belonging: float

    @property
    def probability(self) -> float:
        """Of the class; the highest one, if there is none."""
        return dict(self.ranked).get(self.label, self.ranked[0][1])


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
    miss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=SHARE",
            help="Miss at most so large a share of a class (crack=0.01, say): it is the answer wherever "
            "its probability reaches the threshold that validation gives.",
        ),
    ] = None,
    unknown: Unknown = None,
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
        midfea predict walls.midfea new --miss crack=0.01
        midfea predict pets.midfea new --unknown 0.01
    """
    from midfea.datasets.folder import search_images
    from midfea.progress import expect, progress_bars

    check_outputs(skipped)
    classifier = load_classifier(model, [Path(place) for place in places])
    classifier.n_jobs = jobs
    rule = _rule(classifier, model, miss, threshold, _share_refused(classifier, model, unknown))
    named = [name for place in places for name in (_names() if place == "-" else [place])]
    paths, left_out = search_images(named)
    if not paths:
        warn_skipped(left_out, len(left_out), skipped)
        raise ValueError(f"no images in {', '.join(places)}")
    with progress_bars():
        expect(lambda: expected_prediction(classifier, paths))
        images, kept, unreadable = read_for(classifier, paths)
        predicted = classifier.predict_all(images) if images else ()
    names = [str(label) for label in classifier.classes_]
    answers = _answers(kept, *predicted, names, rule) if predicted else []
    top = min(top, len(names))
    if format is Format.json:
        _print_json(answers, names, top)
    elif format is Format.csv:
        _print_csv(answers, top, rule.may_differ)
    elif answers:
        _print_table(answers, top, rule)
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


def _share_refused(classifier: Predictor, model: Path, unknown: float | None) -> float | None:
    """The share of `--unknown`, or the model's own; ValueError if no image could be refused."""
    if unknown is None:
        return classifier.unknown
    if not unknown:
        return None
    problem = classifier.problem_with_unknown(unknown)
    if problem:
        raise ValueError(f"{model}: --unknown {unknown:g} would refuse no image: {problem}")
    return unknown


def _rule(
    classifier: Predictor,
    model: Path,
    missed: Sequence[str] | None,
    threshold: float,
    unknown: float | None,
) -> DecisionRule:
    """How answers are made; ValueError if nothing can be promised for the class that `missed` names."""
    from midfea.learning.decisions import DecisionRule, MissTarget

    if not missed:
        return DecisionRule(None, threshold, unknown)
    if len(missed) > 1:
        raise ValueError(f"give --miss once: an image gets one answer, got {', '.join(missed)}")
    target = MissTarget.parse(missed[0])
    number, validation = target.number(classifier.classes_), validation_of(classifier)
    if validation is None:
        raise ValueError(f"{model}: holds no validation, which --miss needs: give the .midfea file")
    found = target.threshold(validation)
    if found.value is None:
        raise ValueError(f"{target} cannot be promised: {found.reason}. Allow more, or train with more")
    return DecisionRule((number, found.value), threshold, unknown)


def _answers(
    files: Sequence[Path],
    probabilities: Any,
    belonging: Any,
    names: Sequence[str],
    rule: DecisionRule,
) -> list[Answer]:
    answers = []
    labels = [*names, NONE_OF_THESE, UNSURE]  # the numbers of the last two count from the end
    decided = rule.decide(probabilities, belonging)
    for file, row, share, number in zip(files, probabilities, belonging, decided, strict=True):
        ranked = [(names[i], float(row[i])) for i in (-row).argsort(kind="stable")]
        answers.append(Answer(str(file), labels[number], ranked, float(share)))
    return answers


def _print_csv(answers: Sequence[Answer], top: int, may_differ: bool) -> None:
    """A row for each image: the class and its probability, then the most probable classes."""
    columns = ["file", "class", "probability"]
    if top > 1:
        columns += [f"{what} {i}" for i in range(1, top + 1) for what in ("class", "probability")]
    elif may_differ:
        columns.append("most probable")
    columns.append("belonging")
    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    for answer in answers:
        cells = [answer.file, answer.label, f"{answer.probability:.6f}"]
        if top > 1:
            cells += [cell for name, p in answer.ranked[:top] for cell in (name, f"{p:.6f}")]
        elif may_differ:
            cells.append(answer.ranked[0][0])
        cells.append("" if math.isnan(answer.belonging) else f"{answer.belonging:.6f}")
        writer.writerow(cells)


def _print_table(answers: Sequence[Answer], top: int, rule: DecisionRule) -> None:
    if top > 1:
        columns = ["file", "class", *(f"{i}." for i in range(1, top + 1))]
        rows = [[a.file, a.label, *(f"{name} {p:.1%}" for name, p in a.ranked[:top])] for a in answers]
    else:
        columns = ["file", "class", "probability"]
        rows = [[a.file, a.label, f"{a.probability:.1%}"] for a in answers]
        if rule.may_differ:
            columns.append("most probable")
            rows = [[*row, a.ranked[0][0]] for row, a in zip(rows, answers, strict=True)]
    if rule.unknown is not None:
        columns.append("belonging")
        rows = [[*row, f"{a.belonging:.1%}"] for row, a in zip(rows, answers, strict=True)]
    print_table(columns, rows)


def _print_json(answers: Sequence[Answer], names: Sequence[str], top: int) -> None:
    for answer in answers:
        rounded = {name: round(p, 6) for name, p in answer.ranked}
        line = {
            "file": answer.file,
            "class": answer.label,
            "probability": round(answer.probability, 6),
            "belonging": None if math.isnan(answer.belonging) else round(answer.belonging, 6),
            "top": [{"class": name, "probability": rounded[name]} for name, _ in answer.ranked[:top]],
            "probabilities": {name: rounded[name] for name in names},
        }
        print(json.dumps(line))
