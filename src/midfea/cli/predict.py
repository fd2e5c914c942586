"""`midfea predict`: the classes of images."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from midfea.cli.common import (
    TEXT,
    check_outputs,
    engine_settings,
    expected_prediction,
    load_classifier,
    print_table,
    read_for,
    warn_skipped,
)
from midfea.cli.options import (
    AnswersFile,
    Device,
    Engine,
    EngineName,
    JobsOrProcesses,
    MinProbability,
    MissedClass,
    Model,
    SkippedFile,
    Top,
    Unknown,
)
from midfea.cli.predict_many import ManyImages, check_output, find_manifest, predict_many
from midfea.cli.results import validation_of
from midfea.files import replacing

if TYPE_CHECKING:
    from midfea.datasets import Skipped
    from midfea.engines import EngineSettings
    from midfea.export.runtime import Predictor
    from midfea.learning.answer_table import AnswerTable
    from midfea.learning.decisions import DecisionRule

Format = StrEnum("Format", ["table", "csv", "json"])


def predict(
    model: Model,
    places: Annotated[
        list[str],
        typer.Argument(
            help="Images, folders of images, patterns such as 'new/*.jpg', or - for file names on "
            "standard input, one a line. Or a manifest, which midfea manifest makes.",
            show_default=False,
        ),
    ],
    output: AnswersFile = None,
    format: Annotated[Format, typer.Option(help="json: one JSON object a line.")] = Format.table,
    top: Top = 1,
    threshold: MinProbability = 0.0,
    miss: MissedClass = None,
    unknown: Unknown = None,
    skipped: SkippedFile = None,
    jobs: JobsOrProcesses = None,
    engine: Engine = EngineName.auto,
    device: Device = None,
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
        midfea predict pets.midfea manifest.parquet --output answers.parquet
    """
    manifest = find_manifest(places)
    check_output(output, manifest is not None)
    if output is not None and format is not Format.table:
        raise ValueError(
            f"--format {format} is for standard output: the ending of --output says its form"
        )
    check_outputs(output, skipped)
    settings = engine_settings(engine, device)
    classifier = load_classifier(model, [Path(place) for place in places])
    rule = _rule(classifier, model, miss, threshold, _share_refused(classifier, model, unknown))
    if manifest is not None and output is not None:
        many = ManyImages(manifest, output, top, skipped, jobs, settings)
        predict_many(many, model, classifier, rule)
        return
    classifier.n_jobs = jobs
    _use_engine(classifier, settings)
    table, files, left_out = _answer(classifier, places, rule, skipped)
    if output is not None:
        with replacing(output) as temporary, temporary.open("w", newline="", **TEXT) as file:
            _write_csv(table, files, top, file)
        print(f"Answers: {output} ({len(files):,} images)")
    elif format is Format.json:
        _print_json(table, files, top)
    elif format is Format.csv:
        _write_csv(table, files, top, sys.stdout)
    elif files:
        _print_table(table, files, top, rule)
    warn_skipped(left_out, len(files) + len(left_out), skipped)
    if left_out:
        raise typer.Exit(1)


def _answer(
    classifier: Predictor, places: Sequence[str], rule: DecisionRule, skipped: Path | None
) -> tuple[AnswerTable, list[str], list[Skipped]]:
    """The answers, the files that they are of, and those left out."""
    import numpy as np

    from midfea.datasets.folder import search_images
    from midfea.learning.answer_table import AnswerTable
    from midfea.progress import expect, progress_bars

    named = [name for place in places for name in (_names() if place == "-" else [place])]
    paths, left_out = search_images(named)
    if not paths:
        warn_skipped(left_out, len(left_out), skipped)
        raise ValueError(f"no images in {', '.join(places)}")
    names = [str(label) for label in classifier.classes_]
    with progress_bars():
        expect(lambda: expected_prediction(classifier, paths))
        images, kept, unreadable = read_for(classifier, paths)
        nothing = np.empty((0, len(names))), np.empty(0)
        probabilities, belonging = classifier.predict_all(images) if images else nothing
    table = AnswerTable.of(probabilities, belonging, names, rule)
    return table, [str(path) for path in kept], left_out + unreadable


def _use_engine(classifier: Predictor, engine: EngineSettings) -> None:
    """Compute by another engine than a model's own."""
    from midfea.export.runtime import OnnxClassifier

    if engine.name == "auto":
        return
    if isinstance(classifier, OnnxClassifier):
        raise ValueError(
            f"--engine {engine.name} needs the .midfea file of the model, not an exported one"
        )
    classifier.set_params(engine=engine.name, device=engine.device)


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


def _write_csv(table: AnswerTable, files: Sequence[str], top: int, file: TextIO) -> None:
    """A row for each image: the class and its probability, then the most probable classes."""
    from midfea.learning.answer_table import cells

    columns = table.columns(files, top)
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*map(cells, columns.values()), strict=True))


def _print_table(table: AnswerTable, files: Sequence[str], top: int, rule: DecisionRule) -> None:
    columns: dict[str, Sequence[str]] = {"file": files, "class": table.labels.tolist()}
    if top > 1:
        for place, classes in enumerate(table.ranked.T[:top]):
            of_images = zip(table.names[classes], table.probabilities, classes, strict=True)
            columns[f"{place + 1}."] = [f"{name} {row[number]:.1%}" for name, row, number in of_images]
    else:
        columns["probability"] = [f"{p:.1%}" for p in table.probability]
        if rule.may_differ:
            columns["most probable"] = table.names[table.ranked[:, 0]].tolist()
    if rule.unknown is not None:
        columns["belonging"] = [f"{share:.1%}" for share in table.belonging]
    print_table(list(columns), list(zip(*columns.values(), strict=True)))


def _print_json(table: AnswerTable, files: Sequence[str], top: int) -> None:
    probabilities = table.probabilities.round(6)
    for i, file in enumerate(files):
        of_classes = dict(zip(table.names, probabilities[i].tolist(), strict=True))
        most_probable = table.names[table.ranked[i, :top]]
        share = float(table.belonging[i])
        line = {
            "file": file,
            "class": table.labels[i],
            "probability": round(float(table.probability[i]), 6),
            "belonging": None if share != share else round(share, 6),
            "top": [{"class": name, "probability": of_classes[name]} for name in most_probable],
            "probabilities": of_classes,
        }
        print(json.dumps(line))
