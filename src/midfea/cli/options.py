"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Preset = StrEnum("Preset", ["fast", "paper", "best"])  # those of midfea.estimators.presets
EngineName = StrEnum("EngineName", ["auto", "reference", "cpu", "torch"])  # midfea.engines.NAMES
Engine = Annotated[
    EngineName,
    typer.Option(help="What computes. torch: one process, for a GPU; --jobs processes decode for it."),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Where the engine torch works, such as cuda:1 or cpu. Default: a GPU if there is one.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices: same seed, same result.")]
Jobs = Annotated[int | None, typer.Option(help="Threads to use. Default: all cores.", min=1)]
JobsOrProcesses = Annotated[
    int | None,
    typer.Option(help="Threads to use; processes, for a manifest. Default: all cores.", min=1),
]
PRESETS_HELP = "fast: seconds. paper: the paper's settings. best: most accurate, minutes."
Report = Annotated[Path | None, typer.Option(help="Also write a report (one HTML file).")]
Others = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="A folder of images of none of the classes: what predict --unknown refuses."
    ),
]
Unknown = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help='Print "none of these" for images that look like none of the classes. At most this share '
        "of images of the classes is refused wrongly (0.01: 1 in 100). 0: refuse none.",
        min=0.0,
        max=0.5,
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option(help="The N most probable classes of each image.", min=1)]
MinProbability = Annotated[
    float,
    typer.Option(
        "--threshold",
        metavar="P",
        help='Print "unsure" below this probability (0 to 1).',
        min=0.0,
        max=1.0,
    ),
]
MissedClass = Annotated[
    list[str] | None,
    typer.Option(
        "--miss",
        metavar="CLASS=SHARE",
        help="Miss at most so large a share of a class (crack=0.01, say): it is the answer wherever "
        "its probability reaches the threshold that validation gives.",
    ),
]
AnswersFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the answers to this file: .csv; for a manifest also .parquet.",
        show_default=False,
    ),
]
SkippedFile = Annotated[
    Path | None,
    typer.Option("--skipped", metavar="FILE", help="Also write all files left out, and why (CSV)."),
]
Precisions = Annotated[
    list[float] | None,
    typer.Option(
        "--precision",
        metavar="P",
        help="How many images can be decided, if so large a share of them shall be correct (0.99, "
        "say)? Can be given more than once.",
    ),
]
Missed = Annotated[
    list[str] | None,
    typer.Option(
        "--miss",
        metavar="CLASS=SHARE",
        help="What does it cost to miss at most so large a share of a class (crack=0.01, say)? Can be "
        "given more than once.",
    ),
]
Folder = Annotated[
    Path, typer.Argument(help="One folder of images for each class inside it.", show_default=False)
]
Model = Annotated[Path, typer.Argument(help="A model written by midfea train.", show_default=False)]
Cache = Annotated[
    Path | None,
    typer.Option(
        help="Folder in which finished trials are kept. Default: midfea in the user's cache folder.",
        show_default=False,
    ),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep nothing, take nothing up again.")]
RowsFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Also write the rows to this file.")
]
FolderOrManifest = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER|MANIFEST",
        help="One folder of images for each class inside it; or a manifest.",
        show_default=False,
    ),
]
Finetune = Annotated[
    bool | None,
    typer.Option(
        help="Also train a network: minutes more, needs PyTorch. Default: with preset best, if "
        "PyTorch is installed.",
        show_default=False,
    ),
]
SampleSize = Annotated[
    int, typer.Option(metavar="N", help="Images of a manifest to learn from, drawn at random.", min=2)
]
FeaturesFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Learn from features that midfea extract has written, in place of images."
    ),
]
FeaturesModel = Annotated[
    Path | None,
    typer.Option("--model", help="The model that computed them, if it has moved.", show_default=False),
]
