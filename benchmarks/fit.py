"""Time and memory of learning from 30 images of each class of Caltech-101, 3,060 in all.

python benchmarks/fit.py --data DIR [--per-class 30]
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from common import CLASSES_INSIDE, make_parser, some_of_each
from midfea import MidFea, MidFeaClassifier
from midfea.datasets import load_folder


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--per-class", type=int, default=30)
    given = parser.parse_args()
    photos = load_folder(given.data / CLASSES_INSIDE["caltech101"])
    y = np.unique(photos.target, return_inverse=True)[1]
    chosen = some_of_each(y, given.per_class, 0)
    images = [photos.images[i] for i in chosen]
    model = MidFea(preset="paper", random_state=0)
    report("MidFea.fit", lambda: model.fit(images), len(images))
    report("MidFea.transform", lambda: model.transform(images), len(images))
    classifier = MidFeaClassifier(preset="paper", random_state=0)
    report("MidFeaClassifier.fit", lambda: classifier.fit(images, y[chosen]), len(images))


def report(name: str, work: Callable[[], Any], n: int) -> None:
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:22} {n} images {seconds:6.1f} s   peak so far {peak:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
