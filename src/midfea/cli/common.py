"""What several commands do: reading models and images, warnings, tables, files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midfea.cli.mending import check_model, hint, mending
from midfea.extras import require
from midfea.files import check_writable, replacing
from midfea.provenance import command_line

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from midfea.datasets import Skipped
    from midfea.engines import EngineSettings
    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.export.runtime import Predictor
    from midfea.learning.curve import LearningCurve
    from midfea.pictures.picture import Picture
    from midfea.progress import Plan
    from midfea.provenance import Row

SECONDS_PER_PREDICTION = 0.005  # roughly, for the time left
N_SHOWN = 5  # of things that a warning lists
TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}  # names can be any bytes


def printable(text: str) -> str:
    """The text with control characters, such as those that move the cursor, written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def warn(message: str) -> None:
    """A line for the user that is not part of the result."""
    print(f"midfea: {printable(message)}", file=sys.stderr)


def warn_listed(message: str, items: Sequence[str], shown: int = N_SHOWN) -> None:
    """A line for the user and the first of the things it speaks of."""
    _warn_first(message, items[:shown], len(items) - shown)


def _warn_first(message: str, items: Sequence[str], n_more: int, where: str = "") -> None:
    """`where` says where to find the others."""
    warn(f"{message}:")
    for item in items:
        warn(f"  {item}")
    if n_more > 0:
        warn(f"  ... and {n_more} more{where}")


def warn_skipped(skipped: Sequence[Skipped], total: int, listed: Path | None = None) -> None:
    """Name the first files that were left out, and write all of them to a CSV file if asked to."""
    if listed is not None:
        with replacing(listed) as temporary, temporary.open("w", newline="", **TEXT) as file:
            csv.writer(file).writerows([("file", "reason"), *skipped])
    warn_first_skipped(skipped[:N_SHOWN], len(skipped), total, listed)


def warn_first_skipped(
    first: Sequence[tuple[Path | str, str]], n_skipped: int, total: int, listed: Path | None
) -> None:
    """Name the first files that were left out, and where all of them are listed."""
    if n_skipped:
        named = [f"{path}: {reason}{hint(path)}" for path, reason in first]
        where = f": all are in {listed}" if listed else ": --skipped FILE lists them all"
        _warn_first(f"skipped {n_skipped} of {total} files", named, n_skipped - len(first), where)


def warn_nested(data: Bunch) -> None:
    """Name the classes whose images lie in folders inside: they count as one class each."""
    from midfea.datasets.diagnosis import nested_classes

    nested = nested_classes(data.tree)
    lines = []
    for path, inside in nested:
        listed = ", ".join(f"{name} ({count})" for name, count in list(inside.items())[:N_SHOWN])
        more = f" and {len(inside) - N_SHOWN} more" if len(inside) > N_SHOWN else ""
        typed = command_line({data.tree.path: path})
        apart = f". To tell them apart, type: {typed}" if len(inside) > 1 else ""
        lines.append(f"{path}: {listed}{more}{apart}")
    if lines:
        n_classes = len(data.tree.classes)
        warn_listed(f"{len(lines)} of {n_classes} classes hold folders, which count as one class", lines)


def check_outputs(*paths: Path | None) -> None:
    """OSError before any long work, if one of the files to write cannot be written."""
    for path in paths:
        if path is not None:
            check_writable(path)


def load_classifier(path: Path, others: Sequence[Path] = ()) -> Predictor:
    """The classifier of a model file, `.midfea` or `.onnx`; `others` are the command's other paths."""
    import midfea

    check_model(path, others)
    if path.suffix == ".onnx":
        from midfea.export.runtime import OnnxClassifier

        return OnnxClassifier(path)
    model = midfea.load(path)
    if not isinstance(model, midfea.MidFeaClassifier):
        raise ValueError(f"{path}: holds a {type(model).__name__}, a classifier is needed")
    return model


def engine_settings(name: str, device: str | None) -> EngineSettings:
    """What --engine and --device say; ValueError if that cannot compute here."""
    from midfea.engines import EngineSettings

    settings = EngineSettings(name, device)
    if name == "torch":
        require("torch", "--engine torch")
        try:
            settings.engine  # noqa: B018
        except RuntimeError as error:  # of torch: no such device
            raise ValueError(f"--device {device}: {error}") from None
    elif device is not None:
        raise ValueError(f"--device {device} is for --engine torch, got --engine {name}")
    return settings


def read_folder(
    folder: Path,
    classifier: Predictor,
    thumbnails: bool = False,
    skipped: Path | None = None,
    *,
    testing: bool = False,
    output: Path | None = None,
) -> Bunch:
    """The labelled images of a folder as the classifier wants them; files left out are named.

    testing, output : see `mending`
    """
    from midfea.datasets import load_folder

    with mending(folder, testing=testing, output=output):
        data = load_folder(
            folder,
            max_side=classifier.max_side,
            min_side=classifier.min_side,
            thumbnails=thumbnails,
            rounded=classifier.rounded,
        )
    warn_skipped(data.skipped, len(data.paths) + len(data.skipped), skipped)
    return data


def read_for(
    classifier: Predictor, paths: Sequence[Path]
) -> tuple[list[Path] | list[Picture], list[Path], list[Skipped]]:
    """Images as the classifier wants them, their files, and the files left out."""
    from midfea.datasets.folder import read_photos

    photos, skipped = read_photos(
        list(paths), classifier.max_side, classifier.min_side, rounded=classifier.rounded
    )
    files = [photo.path for photo in photos]
    images = files if classifier.reads_files else [photo.picture for photo in photos]
    return images, files, skipped


def expected_prediction(classifier: Predictor, files: Sequence[Path]) -> Plan:
    """Roughly how long reading image files and predicting their classes takes."""
    from midfea.datasets.folder import expected_reading

    step = "answers" if classifier.reads_files else "features"
    return [*expected_reading(files), (step, 0.2 + SECONDS_PER_PREDICTION * len(files))]


def training_curve(model: MidFeaClassifier, labels: Any, seed: int) -> LearningCurve:
    """The learning curve of a classifier that has kept its training features."""
    import numpy as np

    from midfea.learning.curve import learning_curve

    y = np.searchsorted(model.classes_, labels)
    features, groups = model.training_features_, model.training_groups_
    weights = model.class_weights_
    return learning_curve(features, y, model.head_.C, seed, groups, class_weights=weights)


def save_rows(rows: Sequence[Row], path: Path | None, seeds: Iterable[int]) -> None:
    """Write rows and where they come from, if a file was asked for."""
    from midfea.provenance import write_rows

    if path is not None:
        write_rows(rows, path, seeds)
        print(f"Rows: {path}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output, numbers to the right; plain text if that is not a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # names are no markup
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
