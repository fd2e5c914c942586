"""Photos in series: the accuracy that `midfea train` promises, and what the model does on new series.

    python benchmarks/series.py --data DIR [--splits 5] [--preset fast] [--json FILE]

The set is `traffic`: the class and the first five characters of a name are one drive past one sign. The
series are dealt to as many parts as there are splits. Each part tests once, and the others are trained
on: every image on its own (--groups none), with the series as groups, and as the command does by itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import class_folder, make_parser
from midfea import MidFeaClassifier
from midfea.datasets import load_folder, read_groups, suggest_groups
from midfea.learning.folds import join_groups, make_folds, split
from midfea.learning.interval import Interval
from midfea.pictures.likeness import fingerprints
from midfea.pictures.picture import Picture
from midfea.progress import progress_bars
from midfea.provenance import make_row, write_rows

NONE, SERIES, BY_ITSELF = "none", "regex:^(.+/.{5})", "by itself"
WAYS = (NONE, SERIES, BY_ITSELF)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args()
    given.name = "traffic"
    folder = class_folder(given)
    with progress_bars():
        data = load_folder(folder)
    true_series = join_groups(read_groups(SERIES, folder, data.paths))
    claimed: dict[str, list[float]] = {way: [] for way in WAYS}
    true: dict[str, list[float]] = {way: [] for way in WAYS}
    inside = dict.fromkeys(WAYS, 0)
    y = np.unique(data.target, return_inverse=True)[1]
    folds = make_folds(y, given.splits, 0, true_series)
    for seed in range(given.splits):
        train, test = split(folds, seed)
        images, paths = [data.images[i] for i in train], [data.paths[i] for i in train]
        measured: dict[bytes, tuple[Interval, float]] = {}
        for way in WAYS:
            groups = _groups(way, folder, paths, images)
            key = b"" if groups is None else groups.tobytes()
            if key not in measured:  # equal groups, equal models
                model = MidFeaClassifier(preset=given.preset, C="auto", random_state=seed)
                with progress_bars():
                    model.fit(images, data.target[train], groups)
                    accuracy = model.score([data.images[i] for i in test], data.target[test])
                measured[key] = model.validation_.interval, accuracy
            interval, truth = measured[key]
            claimed[way].append(100 * interval.accuracy)
            true[way].append(100 * truth)
            inside[way] += interval.low <= truth <= interval.high
            print(f"split {seed}, {way}: {interval}, new series {truth:.1%}", flush=True)
    rows = []
    for way in WAYS:
        method = f"midfea {given.preset}, {way if way == BY_ITSELF else f'--groups {way}'}"
        rows.append(make_row("traffic", method, "accuracy claimed", claimed[way]))
        rows.append(make_row("traffic", method, "accuracy on new series", true[way]))
        means = f"claimed {np.mean(claimed[way]):.1f} %, true on new series {np.mean(true[way]):.1f} %"
        print(f"{method}: {means}, inside the interval {inside[way]} of {given.splits}")
    if given.json is not None:
        write_rows(rows, given.json, range(given.splits))


def _groups(way: str, folder: Path, paths: list[Path], images: list[Picture]) -> NDArray[np.intp] | None:
    if way == NONE:
        return None
    if way == BY_ITSELF:
        found = suggest_groups(paths, fingerprints(images))
        return None if found is None else join_groups(found.groups)
    return join_groups(read_groups(way, folder, paths))


if __name__ == "__main__":
    main()
