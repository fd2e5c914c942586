"""What colours do for the linear head: preset `fast` with them and without, on the same splits.

    python benchmarks/colour.py --data DIR [--only bees textures] [--splits 2]
        [--json benchmarks/colour.json]

Half of each class is for training; of Caltech-101 30 images, and at most 20 others are for the test.
"weight" is what validation chose, "-" for no colours. Rows in the file are kept, but for those measured
anew.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import CLASSES_INSIDE, make_parser, some_of_each
from midfea import MidFeaClassifier
from midfea.datasets import load_folder
from midfea.progress import progress_bars
from midfea.provenance import about, write_rows
from midfea.reproduce.evaluate import per_class

SETS = ("bees", "textures", "sign_digits", "caltech101")
METHODS: dict[str, Any] = {"grey": None, "colour": "auto"}
N_TRAIN = {"caltech101": 30}  # of each class, where it is not half of them
N_TEST = {"caltech101": 20}
Row = dict[str, Any]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--json", type=Path, default=None, help="file of the rows")
    given = parser.parse_args()
    stored: list[Row] = []
    if given.json is not None and given.json.exists():
        stored = json.loads(given.json.read_text())
    print(f"{'':24} {'accuracy':>9} {'per class':>9} {'weight':>7} {'training':>9}")
    for name in given.only:
        with progress_bars():
            data = load_folder(given.data / CLASSES_INSIDE.get(name, name))
        y = np.unique(data.target, return_inverse=True)[1]
        for split in range(given.splits):
            for method in METHODS:
                row = measure(name, data.images, y, split, method)
                keys = ("set", "split", "method")
                stored = [other for other in stored if any(other[k] != row[k] for k in keys)] + [row]
                if given.json is not None:
                    write_rows(stored, given.json, [])
        print_means(name, [row for row in stored if row["set"] == name])


def measure(name: str, images: Any, y: Any, split: int, method: str) -> Row:
    """One training and its test."""
    train, test = divided(name, y, split)
    model = MidFeaClassifier(preset="fast", C="auto", colour=METHODS[method], random_state=split)
    started = time.perf_counter()
    with progress_bars():
        model.fit([images[i] for i in train], y[train])
        seconds = time.perf_counter() - started
        predicted = model.predict([images[i] for i in test])
    row = {
        "set": name,
        "split": split,
        "method": method,
        "accuracy": round(100 * float((predicted == y[test]).mean()), 2),
        "mean per-class accuracy": round(per_class(predicted == y[test], y[test]), 2),
        "weight": model.settings_["colour"],
        "training images": len(train),
        "seconds to train": round(seconds, 1),
        "about": about([split]),
    }
    weight, title = row["weight"] or "-", f"{name} {split} {method}"
    numbers = f"{row['accuracy']:9} {row['mean per-class accuracy']:9} {weight:>7}"
    print(f"{title:24} {numbers} {seconds:7.1f} s", flush=True)
    return row


def divided(name: str, y: Any, split: int) -> tuple[Any, Any]:
    """Images for training and for the test."""
    if name in N_TRAIN:
        train = some_of_each(y, N_TRAIN[name], split)
        rest = np.setdiff1d(np.arange(len(y)), train)
        return train, some_of_each(y, N_TEST[name], split, rest)
    rng = np.random.RandomState(split)
    shuffled = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    train = np.sort(np.concatenate([part[: len(part) // 2] for part in shuffled]))
    return train, np.setdiff1d(np.arange(len(y)), train)


def print_means(name: str, rows: list[Row]) -> None:
    """The mean of each method, and the gain."""
    means = {
        method: float(np.mean([row["accuracy"] for row in rows if row["method"] == method]))
        for method in METHODS
    }
    text = ", ".join(f"{method} {mean:.2f}" for method, mean in means.items())
    n = sum(row["method"] == "colour" for row in rows)
    print(f"{name}: {text}, gain {means['colour'] - means['grey']:+.2f} in {n} splits\n", flush=True)


if __name__ == "__main__":
    main()
