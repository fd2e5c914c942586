"""Rare classes: mean recall with classes that count the same ("balanced") and with images that do.

    python benchmarks/imbalance.py --data DIR [--only cracks xray ...] [--ratios 10 100] [--splits 5]
        [--presets fast best] [--engine torch] [--json benchmarks/imbalance.json]

Two classes, one of them ten or a hundred times rarer in training; the test has as many images of both as
there are, at most 100 of each. "none" is class_weight=None, how midfea was trained before. Rows in the
file are kept, but for those measured anew.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import CLASSES_INSIDE, make_parser
from midfea import MidFeaClassifier
from midfea.datasets.folder import find_images, read_photos
from midfea.learning.predictions import Predictions
from midfea.progress import progress_bars
from midfea.provenance import about, write_rows

MAX_TEST_IMAGES = 100
WEIGHTS: dict[str, Any] = {"none": None, "balanced": "balanced"}
Row = dict[str, Any]


class Pair(NamedTuple):
    """A set, its common and its rare class, and how many of the common one are trained on, by ratio."""

    folder: str
    common: str
    rare: str
    n_common: dict[int, int]


PAIRS = {
    "cracks": Pair("cracks", "none", "crack", {10: 600, 100: 600}),
    "xray": Pair("xray", "nofindings", "covid19", {10: 240, 100: 400}),
    "faces": Pair("caltech101", "Faces_easy", "Faces", {10: 150, 100: 300}),
    "vehicles": Pair("caltech101", "airplanes", "Motorbikes", {10: 150, 100: 300}),
    "things": Pair("caltech101", "watch", "Leopards", {10: 100, 100: 100}),
}


def divided(data: Path, pair: Pair, ratio: int, seed: int) -> tuple[list[Any], Any, list[Any], Any]:
    """Pictures and labels for training, and for the test."""
    rng, sides = np.random.RandomState(seed), ([], [])
    n_common = pair.n_common[ratio]
    folder = data / CLASSES_INSIDE.get(pair.folder, pair.folder)
    for label, n_train in ((pair.common, n_common), (pair.rare, max(1, n_common // ratio))):
        files = find_images([folder / label])
        order = [files[i] for i in rng.permutation(len(files))]
        for side, chosen in zip(
            sides, (order[:n_train], order[n_train:][:MAX_TEST_IMAGES]), strict=True
        ):
            side += [(photo.picture, label) for photo in read_photos(chosen, 150)[0]]
    (train, y), (test, labels) = (zip(*side, strict=True) for side in sides)
    return list(train), np.array(y), list(test), np.array(labels)


def measure(given: Any, name: str, ratio: int, preset: str, weight: str, split: int) -> Row:
    """One training and its test."""
    train, y, test, labels = divided(given.data, PAIRS[name], ratio, split)
    model = MidFeaClassifier(
        preset=preset,
        C="auto",
        class_weight=WEIGHTS[weight],
        engine=given.engine,
        random_state=split,
    )
    started = time.perf_counter()
    with progress_bars():
        model.fit(train, y)
        seconds = time.perf_counter() - started
        probabilities = model.predict_proba(test)
    predicted = Predictions.of_test_set(labels, probabilities, model.classes_)
    recalls = {row.name: round(100 * row.recall, 2) for row in predicted.per_class}
    return {
        "set": name,
        "ratio": ratio,
        "preset": preset,
        "weight": weight,
        "seed": split,
        "mean_recall": round(100 * predicted.mean_recall, 2),
        "rare_recall": recalls[PAIRS[name].rare],
        "network": model.network_ is not None,
        "seconds": round(seconds, 1),
        "about": about([split]),
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PAIRS), default=list(PAIRS))
    parser.add_argument("--ratios", nargs="+", type=int, choices=(10, 100), default=[10, 100])
    parser.add_argument("--presets", nargs="+", default=["fast"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--json", type=Path, default=None, help="file of the rows")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.json is not None and given.json.exists():
        rows = json.loads(given.json.read_text())
    keys = ("set", "ratio", "preset", "weight", "seed")
    for split in range(given.splits):  # all cases once before the second split
        for preset in given.presets:
            for name in given.only:
                for ratio in given.ratios:
                    for weight in WEIGHTS:
                        row = measure(given, name, ratio, preset, weight, split)
                        rows[:] = [old for old in rows if any(old[k] != row[k] for k in keys)] + [row]
                        if given.json is not None:
                            write_rows(rows, given.json, [])
    print_table([row for row in rows if row["preset"] in given.presets])


def print_table(rows: list[Row]) -> None:
    """Means over the splits."""
    print("mean recall, recall of the rare class, %                 none              balanced")
    for preset, name, ratio in sorted({(r["preset"], r["set"], r["ratio"]) for r in rows}):
        own = [r for r in rows if (r["preset"], r["set"], r["ratio"]) == (preset, name, ratio)]
        cells = []
        for weight in WEIGHTS:
            found = [r for r in own if r["weight"] == weight]
            means = [np.mean([r[key] for r in found]) for key in ("mean_recall", "rare_recall")]
            cells.append(f"{means[0]:7.1f} {means[1]:7.1f}  ({len(found)})")
        print(f"{preset:6} {name:10} {ratio:4}:1 {'':25} {'    '.join(cells)}")


if __name__ == "__main__":
    main()
