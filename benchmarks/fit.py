"""Time and memory of learning from 30 images of each class of Caltech-101, 3,060 in all.

MIDFEA_DATA=FOLDER python benchmarks/fit.py
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import numpy as np

from midfea import MidFea, MidFeaClassifier
from midfea.datasets import load_folder


def main() -> None:
    folder = load_folder(Path(os.environ["MIDFEA_DATA"]) / "caltech101" / "101_ObjectCategories")
    y = np.unique(folder.target, return_inverse=True)[1]
    rng = np.random.RandomState(0)
    chosen = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:30] for c in range(y.max() + 1)])
    images = [folder.images[i] for i in chosen]
    model = MidFea(preset="paper", random_state=0)
    report("MidFea.fit", lambda: model.fit(images), len(images))
    report("MidFea.transform", lambda: model.transform(images), len(images))
    classifier = MidFeaClassifier(preset="paper", random_state=0)
    report("MidFeaClassifier.fit", lambda: classifier.fit(images, y[chosen]), len(images))


def report(name, work, n: int) -> None:
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:22} {n} images {seconds:6.1f} s   peak so far {peak:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
