"""Our presets and the baselines on one set of images: the same splits, accuracy and times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from midfea import MidFeaClassifier
from midfea.baselines.registry import SYSTEMS, ImageClassifier, fit_images
from midfea.bench.common import timed
from midfea.learning.folds import make_folds, split
from midfea.progress import track
from midfea.provenance import Row, make_row
from midfea.trials import Result, Trials, content_key

PRESETS = ("paper", "fast", "best")
# The title of each method in the table.
TITLES = {name: system.title for name, system in SYSTEMS.items()}
TITLES |= {preset: f"midfea {preset}" for preset in PRESETS}


def make_classifier(method: Any, seed: int, n_jobs: int | None) -> ImageClassifier:
    """To fit: a compared system, or a preset as `midfea train` uses it."""
    if method in SYSTEMS:
        return SYSTEMS[method].make(seed, n_jobs)
    return MidFeaClassifier(preset=method, C="auto", random_state=seed, n_jobs=n_jobs)


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
    finished: Trials | None = None,
) -> tuple[list[Row], dict[str, str]]:
    """A row for each method: its accuracy in percent, mean and deviation over random splits, its times.

    And the methods that cannot learn from these images, with the reason.

    Parameters
    ----------
    methods : names of `TITLES`
    dataset : the name of the images, for the rows
    test_share : share of the images that test; the same ones for every method
    groups : group of each image; a group is never split between training and test
    finished : trials of earlier runs, which are not measured again

    Returns
    -------
    rows : "mean", "std", "trials" of the "accuracy", "mean_recall" (the mean over the classes),
        "seconds_to_train" (mean) and "ms_per_image" (median over the splits, all test images in one
        call), and "n_test".
    """
    results: dict[str, list[Result]] = {method: [] for method in methods}
    finished = finished or Trials(None)
    contents = content_key(images, labels, groups, n_jobs)
    steps = [(number, method) for number in range(n_splits) for method in methods]
    failed: dict[str, str] = {}
    for number, method in track(steps, "methods", len(steps)):
        if method in failed:
            continue
        train, test = parts = _split(labels, test_share, seed + number, groups)
        inner = None if groups is None else groups[train]
        key = content_key("compare", contents, method, seed + number, *parts)
        measure = partial(_measure, images, labels, method, train, test, inner, seed + number, n_jobs)
        try:
            results[method].append(finished.result(key, measure))
        except ValueError as error:
            failed[method] = str(error)
    able = [method for method in methods if method not in failed]
    return [_row(dataset, method, results[method], len(test)) for method in able], failed


def _measure(
    images: Sequence[Any],
    labels: NDArray[Any],
    method: str,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    groups: NDArray[np.intp] | None,
    seed: int,
    n_jobs: int | None,
) -> Result:
    """One training and its test; groups of the training images."""
    model = make_classifier(method, seed, n_jobs)
    _, training = timed(fit_images, model, [images[i] for i in train], labels[train], groups)
    predicted, testing = timed(model.predict, [images[i] for i in test])
    return {
        "accuracy": 100 * float((predicted == labels[test]).mean()),
        "mean_recall": 100 * float(balanced_accuracy_score(labels[test], predicted)),
        "seconds_to_train": training / 1e3,
        "ms_per_image": testing / len(test),
    }


def _row(dataset: str, method: str, results: Sequence[Result], n_test: int) -> Row:
    """Of all trials of a method."""
    columns = {key: [result[key] for result in results] for key in results[0]}
    return {
        **make_row(dataset, TITLES[method], "accuracy", columns["accuracy"]),
        "mean_recall": round(float(np.mean(columns["mean_recall"])), 3),
        "seconds_to_train": round(float(np.mean(columns["seconds_to_train"])), 2),
        "ms_per_image": round(float(np.median(columns["ms_per_image"])), 3),
        "n_test": n_test,
    }


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
