"""`midfea train`: a folder of images to a model file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import Jobs, Preset, PresetOption, Report, Seed, warn, warn_skipped


def train(
    folder: Annotated[
        Path,
        typer.Argument(help="One folder of images for each class inside it.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path(
        "model.midfea"
    ),
    preset: PresetOption = Preset.fast,
    finetune: Annotated[
        bool,
        typer.Option("--finetune", help="Also train the features: minutes more, midfea\\[torch]."),
    ] = False,
    report: Report = None,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Learn to tell the classes of a folder apart.

    The folder holds one folder of images for each class:

        photos/cats/1.jpg, photos/cats/2.jpg, photos/dogs/1.jpg, ...

    Example: midfea train photos -o pets.midfea --preset best --report report.html
    """
    from midfea import MidFeaClassifier
    from midfea.datasets import load_folder
    from midfea.files import check_writable
    from midfea.progress import progress_bars

    for path in (output, report):
        if path is not None:
            check_writable(path)
    model = MidFeaClassifier(
        preset=preset.value, C="cv", finetune=finetune, random_state=seed, n_jobs=jobs
    )
    started = time.perf_counter()
    with progress_bars():
        data = load_folder(folder, max_side=model.max_side, min_side=model.min_side)
        warn_skipped(data.skipped, len(data.paths) + len(data.skipped))
        _check_classes(data.target, data.target_names, folder)
        model.fit(data.images, data.target)
    model.save(output)
    n_classes = len(model.classes_)
    print(f"Learned {n_classes} classes from {len(data.images)} images "
          f"in {time.perf_counter() - started:.0f} s.")  # fmt: skip
    if model.cv_accuracy_ == model.cv_accuracy_:  # not NaN: something could be held out
        print(f"Accuracy on training images held out in turn: {model.cv_accuracy_:.1%}")
    print(f"Model: {output} ({output.stat().st_size / 1e6:.1f} MB)")
    if report is not None:
        from midfea.report import write_report

        facts = {
            "Accuracy on training images held out in turn": f"{model.cv_accuracy_:.1%}",
            "Learned from": f"{len(data.images)} images of {n_classes} classes",
        }
        held_out = model.held_out_predictions_
        write_report(report, model, data.images, data.target, held_out, folder.name, facts)
        print(f"Report: {report}")


def _check_classes(target: object, names: list[str], folder: Path) -> None:
    import numpy as np

    found, counts = np.unique(np.asarray(target), return_counts=True)
    if len(found) < 2:
        what = f"one class only, {found[0]!r}" if len(found) else "no usable image"
        raise ValueError(
            f"{folder}: {what}. A classifier needs two folders of images or more, one for each class"
        )
    for name in sorted(set(names) - set(found)):
        warn(f"the folder {name!r} holds no usable image and is left out")
    for name, count in zip(found, counts, strict=True):
        if count < 5:
            warn(f"the class {name!r} has few images ({count}): add more if you can")
