"""`midfea evaluate`: how often a model is right on labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.common import Jobs, Model, Report, load_classifier, print_table, warn_skipped


def evaluate(
    model: Model,
    folder: Annotated[
        Path,
        typer.Argument(help="One folder of images for each class inside it.", show_default=False),
    ],
    report: Report = None,
    jobs: Jobs = None,
) -> None:
    """Compare a model's answers with the labels of a folder it was not trained on.

    Example: midfea evaluate pets.midfea held-out/ --report report.html
    """
    import numpy as np

    from midfea.datasets import load_folder
    from midfea.files import check_writable
    from midfea.progress import progress_bars

    if report is not None:
        check_writable(report)
    classifier = load_classifier(model)
    classifier.n_jobs = jobs
    with progress_bars():
        data = load_folder(
            folder, max_side=classifier.settings_["max_side"], min_side=classifier.min_side
        )
        warn_skipped(data.skipped, len(data.paths) + len(data.skipped))
        if not data.images:
            raise ValueError(f"{folder}: no usable image")
        known = {str(label) for label in classifier.classes_}
        strange = sorted(set(data.target) - known)
        if strange:
            raise ValueError(
                f"{folder}: the model knows no class {', '.join(map(repr, strange))}, only "
                f"{', '.join(sorted(known))}. Rename or remove those folders"
            )
        predicted = classifier.predict(data.images).astype(str)
    right = predicted == data.target
    rows = []
    for name in sorted(set(data.target)):
        of_class = data.target == name
        rows.append((name, f"{of_class.sum()}", f"{right[of_class].mean():.1%}"))
    print_table(("class", "images", "right"), rows)
    per_class = np.mean([right[data.target == name].mean() for name in set(data.target)])
    print(f"Accuracy: {right.mean():.1%} of {len(right)} images, mean over classes {per_class:.1%}")
    if report is not None:
        from midfea.report import write_report

        facts = {"Accuracy": f"{right.mean():.1%} of {len(right)} images",
                 "Mean over classes": f"{per_class:.1%}"}  # fmt: skip
        write_report(report, classifier, data.images, data.target, predicted, folder.name, facts)
        print(f"Report: {report}")
