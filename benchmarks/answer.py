"""Milliseconds for the answer to one image on one core: the presets, and `best` with parts left out.

    python benchmarks/answer.py --data DATA [--images 40] [--only best fast]

Caltech-101 as `midfea reproduce` has it: 102 classes, at most 150 pixels; from file names to
probabilities. The methods take turns, ten images each: engines prepare what they need of a model once
and keep that of few models. They learn from three images of each class and few copies: time does not
depend on how well something was learned, and the number of classes, words and layers is as it would be.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from midfea import MidFeaClassifier
from midfea.estimators import finetuned
from midfea.parallel import linear_algebra_threads
from midfea.progress import progress_bars, track
from midfea.reproduce.protocols import PROTOCOLS

WAYS: dict[str, dict[str, Any]] = {
    "best": {"preset": "best"},
    "best, no network": {"preset": "best", "finetune": False},
    "best, network with one view": {"preset": "best"},
    "best, one scale": {"preset": "best", "scales": (1.0,)},
    "best, three scales": {"preset": "best", "scales": (1.0, 0.71, 0.5)},
    "best, 1000 words": {"preset": "best", "n_words": 1000},
    "best, hard VQ": {"preset": "best", "encoding": "vq"},
    "best, 2x2 windows": {"preset": "best", "window": 2},
    "best, 9 filters": {"preset": "best", "n_filters": 9},
    "fast": {"preset": "fast"},
    "paper": {"preset": "paper"},
}


# As "cv" does on Caltech-101.
CHOSEN = {"floor": 0.0, "partition": "overlapping pyramid"}


def learned(settings: dict[str, Any], images: list[Any], labels: Any) -> MidFeaClassifier:
    model = MidFeaClassifier(**settings, **CHOSEN, random_state=0, n_jobs=2)
    with (
        patch.object(finetuned, "LEAST", 640),
        patch.object(finetuned, "EACH", 1),
        patch.object(finetuned, "MIRRORED", (False,)),
    ):
        return model.fit(images, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    given = parser.parse_args()
    bunch = PROTOCOLS["caltech101"].load(given.data)
    rng = np.random.RandomState(0)
    order = rng.permutation(len(bunch.target))
    by_class = [[i for i in order if bunch.target[i] == c][:3] for c in np.unique(bunch.target)]
    known = np.concatenate(by_class)
    asked = [i for i in order if i not in set(known)][: given.images]
    images = [bunch.images[i] for i in known]
    models = {}
    with progress_bars():
        for name in track(given.only, "learning", len(given.only)):
            models[name] = learned(WAYS[name], images, bunch.target[known])
            models[name].n_jobs = 1
            if models[name].network_ is not None and name.endswith("with one view"):
                object.__setattr__(models[name].network_, "moved", np.array(0))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spent: dict[str, list[float]] = {name: [] for name in models}
    with linear_algebra_threads(1):
        for first, (name, model) in itertools.product(range(0, len(asked), 10), models.items()):
            model.predict_proba([bunch.images[asked[first]]])  # warms up
            for i in asked[first : first + 10]:
                begun = time.perf_counter()
                model.predict_proba([bunch.images[i]])
                spent[name].append(1e3 * (time.perf_counter() - begun))
    for name, ms in spent.items():
        row = {"method": name, "images": len(ms), "median ms": round(float(np.median(ms)), 1)}
        print(json.dumps(row | {"mean ms": round(float(np.mean(ms)), 1), "slowest": round(max(ms), 1)}))


if __name__ == "__main__":
    main()
