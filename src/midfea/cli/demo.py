"""`midfea demo`: the whole way on the built-in set."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import Jobs, Preset, PresetOption, Seed, print_table


def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    preset: PresetOption = Preset.fast,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Train on the built-in set of drawn surface defects, print the result, write a report.

    The images are synthetic: six kinds of defect on metal under strongly changing light. Half of
    them train, the other half test.
    """
    from sklearn.model_selection import train_test_split

    from midfea import MidFeaClassifier
    from midfea.cli.raw_pixels import raw_pixel_accuracy
    from midfea.datasets import load_surfaces
    from midfea.files import check_writable
    from midfea.progress import progress_bars
    from midfea.report import write_report

    check_writable(report)
    data = load_surfaces(n_per_class=120, random_state=seed)
    labels = [data.target_names[kind] for kind in data.target]
    images, held_out, y, y_held_out = train_test_split(
        data.images, labels, test_size=0.5, stratify=labels, random_state=seed
    )
    print(f"Built-in set (synthetic): {len(images)} images to learn from, {len(held_out)} to test.")
    model = MidFeaClassifier(preset=preset.value, random_state=seed, n_jobs=jobs)
    with progress_bars():
        raw = raw_pixel_accuracy(images, y, held_out, y_held_out, seed)
        started = time.perf_counter()
        model.fit(images, y)
        fitted = time.perf_counter()
        predicted = model.predict(held_out)
        seconds = time.perf_counter() - fitted
    accuracy = float((predicted == y_held_out).mean())
    milliseconds = 1000 * seconds / len(held_out)
    print_table(
        ("method", "accuracy", "ms per image"),
        [
            ("raw pixels + linear SVM", f"{raw:.1%}", "-"),
            (f"midfea ({preset.value})", f"{accuracy:.1%}", f"{milliseconds:.1f}"),
        ],
    )
    print(f"Learned in {fitted - started:.0f} s.")
    facts = {
        "Accuracy on images not seen in training": f"{accuracy:.1%} of {len(held_out)}",
        "Raw pixels + linear SVM": f"{raw:.1%}",
        "Learned from": f"{len(images)} synthetic images in {fitted - started:.0f} s",
        "Time per image": f"{milliseconds:.1f} ms",
    }
    write_report(report, model, held_out, y_held_out, predicted, "Surface defects", facts)
    print(f"Report: {report}")
