"""`midfea manifest`: a list of many images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import warn_listed
from midfea.extras import require
from midfea.files import open_regular

if TYPE_CHECKING:
    from midfea.scale.manifest import Listed

N_CLASSES_SHOWN = 5
PARQUET_START = b"PAR1"


def manifest(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Folders with a folder of images for each class, patterns such as 'new/*.jpg', lists "
            "of files (.txt), archives (.tar, .zip, .parquet); also s3://bucket/folder and the like.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The Parquet file to write.", show_default=False)
    ],
    hash: Annotated[
        bool, typer.Option("--hash", help="Read every image, and note the SHA-256 of its bytes.")
    ] = False,
) -> None:
    """List many images, with their classes, for midfea extract.

    Example: midfea manifest photos shards/*.tar -o manifest.parquet
    """
    require("scale", "a manifest")
    from midfea.progress import progress_bars
    from midfea.scale.manifest import write_manifest

    with progress_bars():
        listed = write_manifest(sources, output, hash)
    print(f"Manifest: {output} ({describe(listed)})")
    warn_left_out(listed)


def describe(listed: Listed) -> str:
    """What was listed, in words: "120 images, 2 classes: cats, dogs"."""
    names = sorted(listed.labels)
    more = ", ..." if len(names) > N_CLASSES_SHOWN else ""
    classes = f", {len(names):,} classes: {', '.join(names[:N_CLASSES_SHOWN])}{more}" if names else ""
    without = listed.n_images - sum(listed.labels.values())
    unlabelled = f", {without:,} without a class" if names and without else ""
    left_out = f", {listed.n_left_out:,} left out" if listed.n_left_out else ""
    return f"{listed.n_images:,} images{classes}{unlabelled}{left_out}"


def warn_left_out(listed: Listed) -> None:
    """Name the first of what was left out."""
    if listed.n_left_out:
        named = [f"{place}: {reason}" for place, reason in listed.named]
        warn_listed(f"left out {listed.n_left_out:,} files, the first of them", named)


def is_manifest(place: str | Path) -> bool:
    """Whether there is a file that is a manifest."""
    try:
        with open_regular(place) as file:
            if file.read(len(PARQUET_START)) != PARQUET_START:
                return False
    except (OSError, ValueError):
        return False
    require("scale", "a manifest")
    from midfea.scale import manifest as manifests

    return manifests.is_manifest(place)
