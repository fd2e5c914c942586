"""`midfea predict` of a manifest: many images, whose answers go to a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from midfea.cli.common import warn_first_skipped
from midfea.cli.manifest import is_manifest

if TYPE_CHECKING:
    from midfea.engines import EngineSettings
    from midfea.export.runtime import Predictor
    from midfea.learning.decisions import DecisionRule

ENDINGS = (".csv", ".parquet")


class ManyImages(NamedTuple):
    """What the command was asked for; see its options."""

    manifest: Path
    output: Path
    top: int
    skipped: Path | None
    jobs: int | None
    engine: EngineSettings


def find_manifest(places: Sequence[str]) -> Path | None:
    """The manifest that is to be answered; None for images. ValueError for one among images."""
    found = [place for place in places if is_manifest(place)]
    if found and len(places) > 1:
        raise ValueError(
            f"{found[0]}: a manifest comes alone. One of all images is made by midfea manifest"
        )
    return Path(found[0]) if found else None


def check_output(output: Path | None, is_manifest: bool) -> None:
    """ValueError if answers cannot be written there."""
    if output is None:
        if is_manifest:
            raise ValueError("a manifest needs --output FILE, .csv or .parquet, for the answers")
        return
    ending = output.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"--output {output}: name a file that ends with .csv or .parquet")
    if ending == ".parquet" and not is_manifest:
        raise ValueError(
            f"--output {output}: Parquet is written for a manifest, which midfea manifest makes of "
            "folders and files; name a .csv file for the answers of these images"
        )


def predict_many(many: ManyImages, model: Path, classifier: Predictor, rule: DecisionRule) -> None:
    """Write the answers of a manifest's images; exit code 1 if some have none."""
    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.parallel import n_threads
    from midfea.progress import progress_bars
    from midfea.scale.answers import Answering, predict
    from midfea.scale.local import local_executor

    if not isinstance(classifier, MidFeaClassifier):
        raise ValueError(f"{model}: a manifest needs the .midfea file of the model, not an exported one")
    begun = time.monotonic()
    with progress_bars():
        answered = predict(
            many.manifest,
            many.output,
            Answering(model, classifier.parts_, rule, many.top),
            executor=local_executor(many.engine, n_threads(many.jobs)),
            engine=many.engine,
            skipped=many.skipped,
        )
    counts = answered.counts
    print(f"Answers: {many.output} ({counts.rows:,} images, {time.monotonic() - begun:.0f} s)")
    warn_first_skipped(answered.left_out, counts.errors, counts.rows + counts.errors, many.skipped)
    if counts.errors:
        raise typer.Exit(1)
