"""`midfea train` for many images: from some of a manifest, or from the features of all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from midfea.cli.common import warn, warn_listed, warn_skipped
from midfea.cli.finishing import missed_network, print_learned, save_model
from midfea.extras import require

if TYPE_CHECKING:
    from midfea import MidFeaClassifier
    from midfea.scale.sample import Sample


def train_on_sample(
    manifest: Path, n: int, model: MidFeaClassifier, output: Path, skipped: Path | None, by_default: bool
) -> None:
    """Learn from some images of a manifest, drawn at random."""
    require("scale", "a manifest")
    from midfea.datasets import Skipped
    from midfea.progress import progress_bars
    from midfea.scale.manifest import Manifest
    from midfea.scale.sample import read_sample

    started = time.perf_counter()
    with progress_bars():
        listed = Manifest(manifest)
        sample = read_sample(listed, n, int(model.random_state), model.max_side, model.min_side)
        _check_classes(manifest, sample)
        model.fit(sample.pictures, sample.labels)
    left_out = [Skipped(Path(place), reason) for place, reason in sample.left_out]
    warn_skipped(left_out, len(sample.pictures) + len(left_out), skipped)
    output = save_model(model, output)
    n_images = len(sample.pictures)
    learned = f"{n_images:,} images of {len(model.classes_)} classes, drawn from {len(listed):,}"
    learned += f", in {time.perf_counter() - started:.0f} s"
    print_learned(model, output, learned, missed_network(model, by_default))
    if n_images < sum(sample.counts.values()):
        print(
            f"To learn from all images: midfea extract {manifest} -o features --model {output}, "
            "then midfea train --features features"
        )


def _check_classes(manifest: Path, sample: Sample) -> None:
    """ValueError if the sample has one class only; a warning if some classes are not in it."""
    if len(sample.counts) < 2:
        raise ValueError(
            f"{manifest}: all its labels are {next(iter(sample.counts))!r}: a classifier needs two "
            "classes or more"
        )
    if len(set(sample.labels)) < 2:
        raise ValueError(f"{manifest}: the images drawn are of one class only: give a larger --sample")
    absent = sorted(set(sample.counts) - set(sample.labels))
    if absent:
        warn_listed(
            f"{len(absent)} of {len(sample.counts)} classes have no image among those drawn: give a "
            "larger --sample, or learn from all features",
            absent,
        )


def train_on_features(
    folder: Path, model: Path | None, output: Path, seed: int, jobs: int | None
) -> None:
    """Learn the classifier of a model anew from the features of all images."""
    require("scale", "midfea train --features")
    from midfea.progress import progress_bars
    from midfea.scale import training

    started = time.perf_counter()
    with progress_bars():
        trained = training.train_on_features(folder, model, seed=seed, n_jobs=jobs)
    if trained.n_without_label:
        warn(f"{trained.n_without_label:,} images without a label are left out")
    if trained.n_equal:
        warn(
            f"{trained.n_equal:,} images are duplicates of others: "
            "they are kept together in the validation"
        )
    output = save_model(trained.model, output)
    learned = f"the features of {trained.n_images:,} images of {len(trained.model.classes_)} classes"
    took = f"{learned} in {time.perf_counter() - started:.0f} s"
    missed = (
        ""
        if not trained.lost_network
        else (
            "The model's network is left out, for it is learned from images: a model that is trained on "
            "the images themselves may be more accurate"
        )
    )
    print_learned(trained.model, output, took, missed)
