"""`midfea demo`: the whole way on the built-in set."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import check_outputs, print_table, training_curve
from midfea.cli.options import PRESETS_HELP, Jobs, Preset, Seed


def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    preset: Annotated[Preset, typer.Option(help=PRESETS_HELP)] = Preset.fast,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Train on the built-in set of drawn surface defects, print the result, write a report.

    The images are synthetic: six kinds of defect on metal under strongly
    changing light. Half of them train, the other half test. With preset fast
    that is a first look within seconds; best takes minutes.

    Example: midfea demo --report demo.html
    """
    from sklearn.model_selection import train_test_split

    from midfea import MidFeaClassifier
    from midfea.baselines import FeatureSVM
    from midfea.datasets import load_surfaces
    from midfea.learning.interval import wilson
    from midfea.learning.predictions import Predictions
    from midfea.pictures.thumbnails import thumbnail
    from midfea.progress import progress_bars
    from midfea.report import Facts, Gallery, write_report

    check_outputs(report)
    data = load_surfaces(n_per_class=120, random_state=seed)
    labels = [data.target_names[kind] for kind in data.target]
    images, test_images, y, test_labels = train_test_split(
        data.images, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    print(f"Built-in set (synthetic): {len(images)} images to learn from, {len(test_images)} to test.")
    model = MidFeaClassifier(preset=preset.value, random_state=seed, n_jobs=jobs, keep_features=True)
    with progress_bars():
        baseline = FeatureSVM("pixels", n_jobs=jobs, random_state=seed)
        raw = baseline.fit(images, y).score(test_images, test_labels)
        started = time.perf_counter()
        model.fit(images, y)
        fitted = time.perf_counter()
        probabilities = model.predict_proba(test_images)
        per_image = (time.perf_counter() - fitted) / len(test_images)
    predictions = Predictions.of_test_set(test_labels, probabilities, model.classes_)
    interval = wilson(int(predictions.correct.sum()), len(test_images))
    rows = [("raw pixels + linear SVM", f"{raw:.1%}", "-")]
    rows += [(f"midfea ({preset.value})", f"{interval.accuracy:.1%}", f"{1000 * per_image:.1f}")]
    print_table(("method", "accuracy", "ms per image"), rows)
    print(f"Learned in {fitted - started:.0f} s.")
    print(f"Accuracy on new images: {interval}")
    if preset is Preset.fast:
        print("A first look, with preset fast: midfea train uses best where PyTorch is installed.")
    gallery = Gallery(
        images=test_images,
        thumbnails=[thumbnail(image) for image in test_images],
        names=[f"image {i + 1}" for i in range(len(test_images))],
    )
    facts = Facts(
        title="Surface defects (built-in set)",
        interval=interval,
        how=f"Measured on {len(test_images)} drawn images that were not trained on.",
        learned=f"{len(images)} synthetic images in {fitted - started:.0f} s",
        seed=seed,
        others={"raw pixels + linear SVM": raw},
    )
    with progress_bars():
        curve = training_curve(model, y, seed)
        write_report(report, model, predictions, gallery, facts, curve)
    print(f"Report: {report}")
