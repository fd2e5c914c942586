"""`midfea train`: a folder of images to a model file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midfea.cli.common import (
    check_outputs,
    read_folder,
    training_curve,
    warn,
    warn_listed,
    warn_nested,
    warn_skipped,
)
from midfea.cli.finishing import missed_network, print_learned, save_model
from midfea.cli.groups import Groups, check_groups, choose_groups
from midfea.cli.manifest import is_manifest
from midfea.cli.mending import mending
from midfea.cli.options import (
    PRESETS_HELP,
    FeaturesFolder,
    FeaturesModel,
    Finetune,
    FolderOrManifest,
    Jobs,
    Others,
    Preset,
    Report,
    SampleSize,
    Seed,
    SkippedFile,
)
from midfea.cli.train_many import train_on_features, train_on_sample

if TYPE_CHECKING:
    from sklearn.utils import Bunch

    from midfea import MidFeaClassifier
    from midfea.datasets.diagnosis import Tree
    from midfea.learning.refusal import Refusal
    from midfea.pictures.picture import Picture
    from midfea.progress import Plan

MIN_IMAGES_PER_CLASS = 10


def train(
    folder: FolderOrManifest = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.midfea"
    ),
    preset: Annotated[
        Preset | None,
        typer.Option(help=PRESETS_HELP, show_default="best if PyTorch is installed, else fast"),
    ] = None,
    finetune: Finetune = None,
    other: Others = None,
    report: Report = None,
    skipped: SkippedFile = None,
    groups: Groups = "auto",
    sample: SampleSize = 2000,
    features: FeaturesFolder = None,
    features_model: FeaturesModel = None,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Learn to classify images from a folder.

    The folder holds one folder of images for each class:

        photos/cats/1.jpg, photos/cats/2.jpg, photos/dogs/1.jpg, ...

    At the end it prints the accuracy to expect on new images of the same kind,
    with a 95 % interval. For that each image was also predicted by a model that
    was trained without it. You need not hold back any images yourself.

    Examples:

        midfea train photos
        midfea train photos -o pets.midfea --preset fast --report report.html
        midfea train photos --groups people.csv:person
        midfea train photos --other everything-else

    For more images than memory can hold, see midfea extract; then

        midfea train manifest.parquet -o start.midfea --sample 5000
        midfea train --features features -o all.midfea
    """
    from midfea.estimators.presets import default_preset

    check_outputs(output, report, skipped)
    of_images = {"preset": preset, "finetune": finetune, "other": other, "report": report}
    if features is not None:
        _refuse(of_images | {"skipped": skipped, "folder": folder}, "--features")
        train_on_features(features, features_model, output, seed, jobs)
        return
    if folder is None:
        raise ValueError("name the folder of images to learn from: see midfea train --help")
    check_groups(groups)
    chosen = default_preset() if preset is None else preset.value
    model = make_classifier(chosen, seed=seed, jobs=jobs, finetune=finetune)
    by_default = preset is None and finetune is None
    if is_manifest(folder):
        _refuse({"other": other, "report": report}, "a manifest")
        train_on_sample(folder, sample, model, output, skipped, by_default)
        return
    _train_on_folder(folder, model, output, other, report, skipped, groups, by_default)


def _refuse(options: Mapping[str, object], what: str) -> None:
    """ValueError if one of these options is given."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        named = "the folder of images" if given == ["folder"] else f"--{given[0]}"
        raise ValueError(f"{named} cannot be used with {what}: leave it out")


def _train_on_folder(
    folder: Path,
    model: MidFeaClassifier,
    output: Path,
    other: Path | None,
    report: Path | None,
    skipped: Path | None,
    groups: str,
    by_default: bool,
) -> None:
    from midfea.progress import expect, progress_bars

    seed, started = int(model.random_state), time.perf_counter()
    with progress_bars():
        expect(lambda: _steps(folder, model))
        data = read_folder(folder, model, report is not None, skipped, output=output)
        with mending(folder):
            _check_classes(data.target, data.tree)
        warn_nested(data)
        _warn_duplicates([image.digest() for image in data.images], data.target, data.paths, folder)
        own = choose_groups(groups, folder, data)
        model.fit(data.images, data.target, own, _read_others(other, model))
    output = save_model(model, output)
    learned = f"{len(data.images)} images of {len(model.classes_)} classes"
    learned += f" in {time.perf_counter() - started:.0f} s"
    print_learned(model, output, learned, missed_network(model, by_default))
    if report is not None:
        _write_report(report, model, data, folder, learned, seed)
        print(f"Report: {report}")


def _read_others(folder: Path | None, model: MidFeaClassifier) -> list[Picture] | None:
    """Pictures of none of the classes; ValueError if the folder has none."""
    from midfea.datasets.folder import find_images, read_photos

    if folder is None:
        return None
    photos, skipped = read_photos(find_images([folder]), model.max_side, model.min_side)
    warn_skipped(skipped, len(photos) + len(skipped))
    if not photos:
        raise ValueError(
            f"{folder}: no usable image for --other; it needs images of none of the classes"
        )
    return [photo.picture for photo in photos]


def _steps(folder: Path, model: MidFeaClassifier) -> Plan:
    """The steps to come, as far as a look at the folder tells."""
    from midfea.datasets.folder import expected_reading, find_images
    from midfea.estimators.plan import expected_steps

    files = find_images([folder])
    n_classes = len({file.relative_to(folder).parts[:1] for file in files})
    return [*expected_reading(files), *expected_steps(model, len(files), n_classes)]


def _write_report(
    path: Path, model: MidFeaClassifier, data: Bunch, folder: Path, learned: str, seed: int
) -> None:
    from midfea.estimators.plan import expected_report
    from midfea.learning.predictions import Predictions
    from midfea.progress import expect, progress_bars
    from midfea.report import Facts, Gallery, write_report

    validation = model.validation_
    names = [str(file.relative_to(folder)) for file in data.paths]
    facts = Facts(
        title=folder.resolve().name,
        interval=validation.interval,
        how=f"Expected on new images of the same kind: {validation.how}.",
        learned=learned,
        seed=seed,
        skipped=[(str(file), reason) for file, reason in data.skipped],
    )
    with progress_bars():
        expect(lambda: expected_report(len(data.images), len(model.classes_)))
        write_report(
            path,
            model,
            Predictions.of_validation(validation, model.classes_),
            Gallery(data.images, data.thumbnails, names).take(validation.indices),
            facts,
            training_curve(model, data.target, seed),
            _refusal(model, data.target, seed),
        )


def _refusal(model: MidFeaClassifier, labels: Any, seed: int) -> Refusal | None:
    """How models that do not know some of the classes refuse their images."""
    import numpy as np

    from midfea.learning.refusal import leave_classes_out

    y = np.searchsorted(model.classes_, labels)
    features, groups = model.training_features_, model.training_groups_
    return leave_classes_out(features, y, model.head_.C, seed, groups, model.class_weights_)


def make_classifier(
    preset: str, *, seed: int = 0, jobs: int | None = None, finetune: bool | None = None
) -> MidFeaClassifier:
    """The classifier that this command fits."""
    from midfea import MidFeaClassifier

    chosen = {} if finetune is None else {"finetune": finetune}  # else the preset decides
    return MidFeaClassifier(
        preset=preset, C="auto", random_state=seed, n_jobs=jobs, keep_features=True, **chosen
    )


def _check_classes(target: Any, tree: Tree) -> None:
    """ValueError if there is nothing to tell apart; warnings if it will be hard."""
    import numpy as np

    from midfea.datasets.diagnosis import one_class
    from midfea.learning.predictions import MAX_CLASS_RATIO

    found, counts = np.unique(target, return_counts=True)
    if len(found) < 2:
        raise one_class(tree, [str(name) for name in found])
    for name in sorted({folder.path.name for folder in tree.folders} - set(found)):
        warn(f"the folder {name!r} holds no usable image and is left out")
    few = [
        f"{str(name)!r}: {count}"
        for name, count in zip(found, counts, strict=True)
        if count < MIN_IMAGES_PER_CLASS
    ]
    if few:
        warn_listed(f"{len(few)} of {len(found)} classes have few images: add more if you can", few)
    ratio = counts.max() / counts.min()
    if ratio > MAX_CLASS_RATIO:
        warn(
            f"unbalanced classes: {str(found[counts.argmax()])!r} has {counts.max()} images, "
            f"{str(found[counts.argmin()])!r} {counts.min()}, {ratio:.1f} times fewer: "
            "rare classes will be missed more often"
        )


def _warn_duplicates(digests: Sequence[bytes], target: Any, paths: Sequence[Path], folder: Path) -> None:
    """Name images that lie in two classes, which no model can learn, and count duplicates in a class."""
    first: dict[bytes, int] = {}
    across: list[str] = []
    within: list[str] = []
    for i, content in enumerate(digests):
        j = first.setdefault(content, i)
        if j != i:
            pair = f"{paths[j].relative_to(folder)} and {paths[i].relative_to(folder)}"
            (within if target[i] == target[j] else across).append(pair)
    if across:
        warn_listed(f"{len(across)} images lie in two classes, keep them in the right one", across)
    if within:
        warn_listed(f"{len(within)} images are duplicates of others in their class", within, shown=1)
