"""NBNN and SVM-KNN beside an SVM on the same images: accuracy on some classes of Caltech-101, and times.

    python benchmarks/neighbours.py --data DIR [--only speed accuracy] [--classes 20] [--splits 1]
        [--at-most 15] [--methods NBNN ...] [--json FILE]

speed : milliseconds for one image on one thread, 30 training images of each of all 102 classes, images
    of 150 pixels at most.
accuracy : so many classes drawn at random, 30 training images of each, the same test images for every
    method. "by validation": the weight is chosen in three folds of the training images. The first five
    are those of `midfea compare`; "MidFea, ..." see the same features (1,000 words, pyramid), without
    projection.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from common import class_folder, make_parser, some_of_each
from midfea import MidFea
from midfea.baselines.nbnn import NBNN
from midfea.baselines.registry import SYSTEMS
from midfea.baselines.svm_knn import SVMKNN
from midfea.datasets import load_folder
from midfea.progress import progress_bars
from midfea.provenance import Row, make_row, write_rows
from midfea.reproduce.evaluate import per_class

N_TRAIN = 30
WEIGHTS = (0.0, 1.0, 2.0, 3.0)
SPEED_IMAGES = 20


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--at-most", type=int, default=15, help="test images of a class")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.name = "caltech101"
    photos = load_folder(class_folder(given))
    y = np.unique(photos.target, return_inverse=True)[1]
    rows = [row for part in given.only for row in PARTS[part](photos.images, y, given)]
    if given.json:
        write_rows(rows, given.json, range(given.splits))


def speed(images: Any, y: Any, given: argparse.Namespace) -> list[Row]:
    train = some_of_each(y, N_TRAIN, 0)
    others = np.random.RandomState(0).permutation(np.setdiff1d(np.arange(len(y)), train))
    with progress_bars():
        model = NBNN(n_jobs=1).fit([images[i] for i in train], y[train])
    megabytes = sum(rows.nbytes for rows in model.descriptors_) / 2**20
    times = []
    for i in others[:SPEED_IMAGES]:
        started = time.perf_counter()
        model.predict([images[i]])
        times.append(1e3 * (time.perf_counter() - started))
    print(f"NBNN, {len(model.classes_)} classes: {np.median(times):.0f} ms for an image on one thread, "
          f"{megabytes:.0f} MB of descriptors")  # fmt: skip
    return [make_row("caltech101", "NBNN", "ms per image, one thread", times)]


def accuracy(images: Any, y: Any, given: argparse.Namespace) -> list[Row]:
    """A row for each method: mean per-class accuracy over the splits, and its seconds."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for seed in range(given.splits):
        large_enough = np.flatnonzero(np.bincount(y) >= N_TRAIN + given.at_most)
        classes = np.random.RandomState(seed).permutation(large_enough)[: given.classes]
        train = some_of_each(y, N_TRAIN, seed, np.flatnonzero(np.isin(y, classes)))
        others = np.setdiff1d(np.flatnonzero(np.isin(y, classes)), train)
        test = some_of_each(y, given.at_most, seed, others)
        known, new = ([images[i] for i in part] for part in (train, test))
        inputs = {"images": (known, new), "features": features(known, new, seed)}
        for name in given.methods:
            kind, make = METHODS[name]
            started = time.perf_counter()
            with progress_bars():
                model = make(seed).fit(inputs[kind][0], y[train])
                predicted = model.predict(inputs[kind][1])
            share = per_class(predicted == y[test], y[test])
            seconds = time.perf_counter() - started
            measured.setdefault(name, []).append((share, seconds))
            last = model.steps[-1][1] if isinstance(model, Pipeline) else model
            chosen = getattr(last, "best_params_", getattr(last, "n_neighbors_", ""))
            print(f"split {seed}  {name:36} {share:5.1f} %  {seconds:6.1f} s  {chosen}", flush=True)
    rows = []
    for name, values in measured.items():
        shares, times = zip(*values, strict=True)
        row = make_row("caltech101", name, "mean per-class accuracy", shares)
        settings = {"classes": given.classes, "per class": N_TRAIN, "test, at most": given.at_most}
        rows.append({**row, **settings, "seconds": round(float(np.mean(times)), 1)})
    return rows


def features(known: Any, new: Any, seed: int) -> tuple[Any, Any]:
    model = MidFea(projection=None, random_state=seed)
    with progress_bars():
        return model.fit_transform(known), model.transform(new)


def by_validation(seed: int) -> GridSearchCV:
    return GridSearchCV(NBNN(), {"position_weight": WEIGHTS}, cv=3)


def system(name: str) -> tuple[str, Callable[[int], Any]]:
    return "images", lambda seed: SYSTEMS[name].make(seed, None)


METHODS: dict[str, tuple[str, Callable[[int], Any]]] = {  # what each takes, and how it is made
    "raw pixels, SVM": system("pixels"),
    "SIFT pyramid, SVM": system("sift"),
    "KSPM": system("kspm"),
    "SVM-KNN": system("svm-knn"),
    "NBNN": system("nbnn"),
    "NBNN, images of 300 pixels": ("images", lambda seed: NBNN(max_side=300)),
    "NBNN, patches of 16, 24, 32 pixels": ("images", lambda seed: NBNN(patch_sizes=(16, 24, 32))),
    "NBNN, weight of places by validation": ("images", by_validation),
    "MidFea, SVM": ("features", lambda seed: LinearSVC(C=10.0, random_state=seed)),
    "MidFea, SVM-KNN": ("features", lambda seed: SVMKNN(random_state=seed)),
    "MidFea, SVM-KNN, chi2": ("features", lambda seed: SVMKNN(metric="chi2", random_state=seed)),
}
PARTS: dict[str, Callable[..., list[Row]]] = {"speed": speed, "accuracy": accuracy}


if __name__ == "__main__":
    main()
