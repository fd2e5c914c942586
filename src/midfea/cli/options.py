"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Preset = StrEnum("Preset", ["fast", "paper", "best"])  # those of midfea.estimators.presets
Seed = Annotated[int, typer.Option(help="Seed of all random choices: same seed, same result.")]
Jobs = Annotated[int | None, typer.Option(help="Threads to use. Default: all cores.", min=1)]
PRESETS_HELP = "fast: seconds. paper: the paper's settings. best: most accurate, minutes."
Report = Annotated[Path | None, typer.Option(help="Also write a report (one HTML file).")]
SkippedFile = Annotated[
    Path | None,
    typer.Option("--skipped", metavar="FILE", help="Also write all files left out, and why (CSV)."),
]
Folder = Annotated[
    Path, typer.Argument(help="One folder of images for each class inside it.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model written by midfea train.", show_default=False)]
