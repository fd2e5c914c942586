"""Milliseconds for the answer to one image on one core: the presets, and `best` with parts left out.

    python benchmarks/answer.py --data DIR [--images 40] [--only best fast]

Caltech-101 as `midfea reproduce` has it: 102 classes, at most 150 pixels; from pixels to probabilities.
The methods take turns, ten images each. They learn from three images of each class and few augmented
images: time does not depend on how well something was learned, and the number of classes, words and
layers is as it would be.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import Any

import numpy as np

from common import make_parser
from midfea import MidFeaClassifier
from midfea.learning.network.settings import NetworkSettings
from midfea.parallel import linear_algebra_threads
from midfea.progress import progress_bars, track
from midfea.reproduce.protocols import PROTOCOLS

BUDGET = {"min_images_seen": 640, "images_seen_per_image": 1, "mirror_candidates": (False,)}
BEST = {"preset": "best", "network": NetworkSettings(**BUDGET)}
METHODS: dict[str, dict[str, Any]] = {
    "best": BEST,
    "best, no network": {"preset": "best", "finetune": False},
    "best, network with one view": BEST | {"network": NetworkSettings(**BUDGET, view_shift=0)},
    "best, one scale": BEST | {"scales": (1.0,)},
    "best, three scales": BEST | {"scales": (1.0, 0.71, 0.5)},
    "best, 1000 words": BEST | {"n_words": 1000},
    "best, hard VQ": BEST | {"encoding": "vq"},
    "best, 2x2 windows": BEST | {"window": 2},
    "best, 9 filters": BEST | {"n_filters": 9},
    "fast": {"preset": "fast"},
    "paper": {"preset": "paper"},
}
CHOSEN = {"floor": 0.0, "partition": "overlapping pyramid"}  # as "auto" chooses on Caltech-101
N_PER_TURN, N_PER_CLASS = 10, 3  # images timed in a turn, and learned from


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args()
    data = PROTOCOLS["caltech101"].load(given.data)
    order = np.random.RandomState(0).permutation(len(data.target))
    parts = [order[data.target[order] == label] for label in np.unique(data.target)]
    known = np.concatenate([part[:N_PER_CLASS] for part in parts])
    asked = order[~np.isin(order, known)][: given.images]
    models = {}
    with progress_bars():
        for name in track(given.only, "learning", len(given.only)):
            model = MidFeaClassifier(**METHODS[name], **CHOSEN, random_state=0, n_jobs=2)
            models[name] = model.fit([data.images[i] for i in known], data.target[known])
            model.n_jobs = 1
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    times: dict[str, list[float]] = {name: [] for name in models}
    with linear_algebra_threads(1):
        turns = itertools.product(range(0, len(asked), N_PER_TURN), models.items())
        for first, (name, model) in turns:
            model.predict_proba([data.images[asked[first]]])  # warms up
            for i in asked[first : first + N_PER_TURN]:
                started = time.perf_counter()
                model.predict_proba([data.images[i]])
                times[name].append(1e3 * (time.perf_counter() - started))
    for name, ms in times.items():
        row = {"method": name, "images": len(ms), "median ms": round(float(np.median(ms)), 1)}
        print(json.dumps(row | {"mean ms": round(float(np.mean(ms)), 1), "slowest": round(max(ms), 1)}))


if __name__ == "__main__":
    main()
