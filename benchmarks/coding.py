"""KSPM, LLC and ScSPM on dense SIFT: accuracy on Caltech-101, and times beside the MidFea feature.

    python benchmarks/coding.py --data DIR [--only speed accuracy] [--classes 102] [--splits 1]
        [--at-most 20] [--methods KSPM ...] [--jobs 1] [--json FILE]

speed : milliseconds for an image of 150x150 pixels on one thread; the methods take turns in one run.
accuracy : so many classes drawn at random, 30 training images of each, at most so many test images of a
    class, images of 150 pixels at most as they are in the folder.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import class_folder, make_parser, some_of_each
from midfea import MidFea
from midfea.baselines.dense_sift import dense_sift
from midfea.baselines.kspm import KSPM
from midfea.baselines.llc import LLC
from midfea.baselines.local_features import grey_images
from midfea.baselines.pyramid import SpatialPyramid
from midfea.baselines.pyramid_classifier import PyramidClassifier
from midfea.baselines.scspm import ScSPM
from midfea.datasets import load_folder
from midfea.parallel import linear_algebra_threads
from midfea.pictures.resize import resize
from midfea.progress import progress_bars
from midfea.provenance import Row, make_row, write_rows
from midfea.reproduce.evaluate import per_class

N_TRAIN = 30
SIDE = 150  # pixels
SPEED_IMAGES, SPEED_TURNS = 10, 20
LEARNING_IMAGES = 100  # for the speed


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--classes", type=int, default=102)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--at-most", type=int, default=20, help="test images of a class")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.name = "caltech101"
    photos = load_folder(class_folder(given))
    y = np.unique(photos.target, return_inverse=True)[1]
    rows = [row for part in given.only for row in PARTS[part](photos.images, y, given)]
    if given.json:
        write_rows(rows, given.json, range(given.splits))


def speed(images: Any, y: Any, given: argparse.Namespace) -> list[Row]:
    """A row for each: the times of its turns."""
    some = np.linspace(0, len(images) - 1, LEARNING_IMAGES).astype(int)
    greys = grey_images([images[i] for i in some])
    squares = [resize(grey, (SIDE, SIDE)).round().astype(np.uint8) for grey in greys]
    seen = squares[:SPEED_IMAGES]
    model = MidFea(n_jobs=1, random_state=0).fit(squares)
    methods: dict[str, Callable[[], Any]] = {
        "dense SIFT, step 6": lambda: [dense_sift(image) for image in seen],
        "MidFea, the whole feature": lambda: model.transform(seen),
    }
    for name, settings in SPEED_SETTINGS.items():
        pyramid = SpatialPyramid(**settings, n_jobs=1, random_state=0).fit(squares)
        methods[name] = lambda pyramid=pyramid: pyramid.transform(seen)
    times: dict[str, list[float]] = {name: [] for name in methods}
    with linear_algebra_threads(1):
        for turn in range(SPEED_TURNS + 1):
            for name, work in methods.items():
                started = time.perf_counter()
                work()
                if turn:  # the first warms up
                    times[name].append(1e3 * (time.perf_counter() - started) / SPEED_IMAGES)
    for name, values in times.items():
        print(f"{name:28} {np.median(values):6.2f} ms for an image, {min(values):.2f} at best")
    return [make_row("caltech101", name, "ms per image", values) for name, values in times.items()]


def accuracy(images: Any, y: Any, given: argparse.Namespace) -> list[Row]:
    """A row for each method: mean per-class accuracy over the splits, and its seconds."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in given.methods}
    for seed in range(given.splits):
        classes = np.random.RandomState(seed).permutation(y.max() + 1)[: given.classes]
        among = np.flatnonzero(np.isin(y, classes))
        train = some_of_each(y, N_TRAIN, seed, among)
        test = some_of_each(y, given.at_most, seed, np.setdiff1d(among, train))
        known, new = ([images[i] for i in part] for part in (train, test))
        for name in given.methods:
            started = time.perf_counter()
            model = METHODS[name](seed).set_params(n_jobs=given.jobs)
            with progress_bars():
                predicted = model.fit(known, y[train]).predict(new)
            share, seconds = per_class(predicted == y[test], y[test]), time.perf_counter() - started
            measured[name].append((share, seconds))
            print(f"split {seed}  {name:32} {share:5.1f} %  {seconds:6.0f} s", flush=True)
    rows = []
    for name, values in measured.items():
        shares, times = zip(*values, strict=True)
        row = make_row("caltech101", name, "mean per-class accuracy", shares)
        settings = {"classes": given.classes, "per class": N_TRAIN, "test, at most": given.at_most}
        rows.append({**row, **settings, "seconds": round(float(np.mean(times)), 1)})
    return rows


FEW: dict[str, int] = {"n_samples": 20_000, "n_rounds": 10}  # minutes, not an hour, for a dictionary
SMALL_LLC: dict[str, Any] = {"n_words": 1000, "patch_sizes": (16,), "step": 6}
METHODS: dict[str, Callable[[int], PyramidClassifier]] = {
    "KSPM": lambda seed: KSPM(random_state=seed),
    "LLC": lambda seed: LLC(random_state=seed),
    "LLC, 1000 words": lambda seed: LLC(**SMALL_LLC, random_state=seed),
    "LLC, 1000 words, projected": lambda seed: LLC(**SMALL_LLC, n_components=3000, random_state=seed),
    "ScSPM, 20000 samples, 10 rounds": lambda seed: ScSPM(**FEW, random_state=seed),
}
SPEED_SETTINGS: dict[str, dict[str, Any]] = {
    "KSPM": {"encoding": "hard", "n_words": 200, "step": 8},
    "LLC": {"n_words": 2048, "patch_sizes": (16, 25, 31), "step": 8, "n_samples": 20_000},
    "LLC, 1000 words, projected": {**SMALL_LLC, "n_components": 3000, "n_samples": 20_000},
    "ScSPM": {"encoding": "sparse", "n_samples": 5000, "n_rounds": 3},
}
PARTS: dict[str, Callable[..., list[Row]]] = {"speed": speed, "accuracy": accuracy}


if __name__ == "__main__":
    main()
