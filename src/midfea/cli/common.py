"""Options and outputs that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from midfea.datasets import Skipped
    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.export.runtime import Predictor
    from midfea.learning.curve import LearningCurve
    from midfea.pictures.picture import Picture


class Preset(StrEnum):
    """The bundles of `midfea.estimators.presets`, by name."""

    fast = "fast"
    paper = "paper"
    best = "best"


Seed = Annotated[int, typer.Option(help="Seed of all random choices: same seed, same result.")]
Jobs = Annotated[int | None, typer.Option(help="Threads to use. Default: all cores.", min=1)]
PresetOption = Annotated[
    Preset, typer.Option(help="fast: seconds. paper: the paper's settings. best: most accurate.")
]
Report = Annotated[Path | None, typer.Option(help="Also write a report (one HTML file).")]
Folder = Annotated[
    Path, typer.Argument(help="One folder of images for each class inside it.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model written by midfea train.", show_default=False)]


def warn(message: str) -> None:
    """A line for the user that is not part of the result."""
    print(f"midfea: {message}", file=sys.stderr)


def warn_listed(message: str, items: Sequence[str], shown: int = 5) -> None:
    """A line for the user and the first of the things it speaks of."""
    warn(f"{message}:")
    for item in items[:shown]:
        warn(f"  {item}")
    if len(items) > shown:
        warn(f"  ... and {len(items) - shown} more")


def warn_skipped(skipped: Sequence[Skipped], total: int) -> None:
    """Name the files that were left out, and count them."""
    if skipped:
        named = [f"{path}: {reason}" for path, reason in skipped]
        warn_listed(f"skipped {len(skipped)} of {total} files", named)


def load_classifier(path: Path) -> Predictor:
    """The classifier of a model file, `.midfea` or `.onnx`."""
    import midfea

    if path.suffix == ".onnx":
        from midfea.export.runtime import OnnxClassifier

        return OnnxClassifier(path)
    model = midfea.load(path)
    if not isinstance(model, midfea.MidFeaClassifier):
        raise ValueError(f"{path}: holds a {type(model).__name__}, a classifier is needed")
    return model


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


def training_curve(
    model: MidFeaClassifier, images: Sequence[Picture], labels: Any, seed: int
) -> LearningCurve:
    """The learning curve of a classifier that has kept its training features."""
    import numpy as np

    from midfea.learning.curve import learning_curve
    from midfea.learning.folds import join_duplicates

    y = np.searchsorted(model.classes_, labels)
    groups = join_duplicates(images)
    return learning_curve(model.training_features_, y, model.head_.C, seed, groups)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output, numbers to the right; plain text if that is not a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
