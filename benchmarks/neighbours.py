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
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.nbnn import NBNN
from midfea.baselines.registry import SYSTEMS
from midfea.baselines.svm_knn import SVMKNN
from midfea.datasets import load_folder
from midfea.parallel import linear_algebra_threads
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
    """A row for each: milliseconds of one image on one thread, beside the whole MidFea feature."""
    train = some_of_each(y, N_TRAIN, 0)
    others = np.random.RandomState(0).permutation(np.setdiff1d(np.arange(len(y)), train))
    known, new = ([images[i] for i in part] for part in (train, others[:SPEED_IMAGES]))
    vectors = np.random.RandomState(0).normal(
        size=(len(train) + len(new), 3000)
    )  # times are those of any
    with progress_bars():
        feature = MidFea(n_jobs=1, random_state=0).fit(known[::10])
        nbnn = NBNN(n_jobs=1).fit(known, y[train])
        dictionary = LCKSVD(N_TRAIN, n_iter=1, n_start_iter=0, n_jobs=1).fit(
            vectors[len(new) :], y[train]
        )
    answers: dict[str, Callable[[int], Any]] = {
        "MidFea, the whole feature": lambda i: feature.transform([new[i]]),
        "LC-KSVD, 3060 atoms of 3000 numbers": lambda i: dictionary.predict(vectors[i : i + 1]),
        "NBNN": lambda i: nbnn.predict([new[i]]),
    }
    times: dict[str, list[float]] = {name: [] for name in answers}
    with linear_algebra_threads(1):
        for i in range(len(new)):  # in turns
            for name, answer in answers.items():
                started = time.perf_counter()
                answer(i)
                times[name].append(1e3 * (time.perf_counter() - started))
    own = float(np.median(times["MidFea, the whole feature"]))
    for name, values in times.items():
        print(f"{name:36} {np.median(values):8.1f} ms, {np.median(values) / own:6.1f} times MidFea")
    return [
        make_row("caltech101", name, "ms per image, one thread", value) for name, value in times.items()
    ]


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
