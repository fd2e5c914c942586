"""Our presets and the baselines on one set of images: the same splits, accuracy and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from midfea import MidFeaClassifier
from midfea.baselines import FeatureSVM
from midfea.bench.common import timed
from midfea.extras import missing, why_not
from midfea.learning.folds import make_folds, split
from midfea.progress import track
from midfea.provenance import Row, make_row

Classifier: TypeAlias = "MidFeaClassifier | FeatureSVM"

# The names of the methods, and their titles in the table.
BASELINES = {"pixels": "raw pixels + SVM", "hog": "HOG + SVM", "sift": "SIFT pyramid + SVM"}
TITLES = {**BASELINES, "paper": "midfea paper", "fast": "midfea fast", "best": "midfea best"}


def make_classifier(method: Any, seed: int, n_jobs: int | None) -> Classifier:
    """To fit: a baseline, or a preset as `midfea train` uses it."""
    if method in BASELINES:
        return FeatureSVM(method, n_jobs, seed)
    return MidFeaClassifier(preset=method, C="auto", random_state=seed, n_jobs=n_jobs)


def missing_for(method: str) -> str:
    """What is missing for a method, and the line to type; empty if it can be used."""
    return why_not("bench") if method == "sift" and "OpenCV" in missing("bench") else ""


def compare_methods(
    images: Sequence[Any],
    labels: NDArray[Any],
    methods: Sequence[str],
    *,
    dataset: str,
    n_splits: int = 3,
    test_share: float = 0.5,
    groups: NDArray[np.intp] | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> list[Row]:
    """A row for each method: its accuracy in percent, mean and deviation over random splits, its times.

    Parameters
    ----------
    methods : names of `TITLES`
    dataset : the name of the images, for the rows
    test_share : share of the images that test; the same ones for every method
    groups : group of each image; a group is never split between training and test

    Returns
    -------
    rows : "mean", "std", "trials" of the "accuracy", "seconds_to_train" (mean) and "ms_per_image"
        (median over the splits, all test images in one call), and "n_test".
    """
    measured: dict[str, list[tuple[float, float, float]]] = {method: [] for method in methods}
    steps = [(number, method) for number in range(n_splits) for method in methods]
    for number, method in track(steps, "methods", len(steps)):
        train, test = _split(labels, test_share, seed + number, groups)
        model = make_classifier(method, seed + number, n_jobs)
        inner = None if groups is None else groups[train]
        _, training = timed(model.fit, [images[i] for i in train], labels[train], inner)
        predicted, testing = timed(model.predict, [images[i] for i in test])
        accuracy = 100 * float((predicted == labels[test]).mean())
        measured[method].append((accuracy, training / 1e3, testing / len(test)))
    return [
        {
            **make_row(dataset, TITLES[method], "accuracy", accuracies),
            "seconds_to_train": round(float(np.mean(seconds)), 2),
            "ms_per_image": round(float(np.median(milliseconds)), 3),
            "n_test": len(test),
        }
        for method in methods
        for accuracies, seconds, milliseconds in [zip(*measured[method], strict=True)]
    ]


def _split(
    labels: NDArray[Any], test_share: float, seed: int, groups: NDArray[np.intp] | None
) -> list[NDArray[np.intp]]:
    """Indices of the images to learn from and to test with, the same share of every class."""
    names, counts = np.unique(labels, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        raise ValueError(
            "to compare methods, two classes or more are needed, each with two images or more; got "
            + ", ".join(f"{n!r}: {c}" for n, c in zip(names.tolist(), counts, strict=True))
        )
    if groups is not None:
        if test_share > 0.5:
            raise ValueError(
                f"with groups --test-share is 0.5 at most, got {test_share}; see --groups none"
            )
        y = np.unique(labels, return_inverse=True)[1]
        folds = make_folds(y, round(1 / test_share), seed, groups)
        if not (folds == 0).any():
            raise ValueError("every class has one group only: nothing can be kept to test with")
        return list(split(folds, 0))
    everything = np.arange(len(labels))
    try:
        return list(
            train_test_split(everything, test_size=test_share, stratify=labels, random_state=seed)
        )
    except ValueError as error:  # fewer images than classes on one side
        raise ValueError(f"too few images for --test-share {test_share}: {error}") from None
