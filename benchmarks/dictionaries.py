"""SRC, FDDL and LC-KSVD on faces, beside the numbers of the papers.

    python benchmarks/dictionaries.py --data DIR [--only ar-face] [--methods SRC] [--json FILE]

The inputs are random faces of the pixels: 300 numbers on AR, as in the MidFea paper, and 504 on Extended
Yale B (half of each person's images for training), as in the papers of SRC and LC-KSVD. Each trial has
another random matrix, and on Yale B another split. The settings in TASKS are the papers' or were chosen
by cross-validation on training samples; those in a grid are chosen in the run, in three folds of the
training samples (on gender no person is in two folds). A row in the JSON file replaces its former one.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from common import make_parser
from midfea.baselines.fddl import FDDL
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.random_faces import RandomFaces
from midfea.baselines.raw_pixels import raw_pixels
from midfea.baselines.src import SRC
from midfea.learning.folds import make_folds, splits
from midfea.provenance import Row, about, make_row, write_rows
from midfea.reproduce.protocols import PROTOCOLS

N_FOLDS = 3


class Trial(NamedTuple):
    """A method on a protocol: the estimator, the settings to choose from, the published accuracy."""

    model: BaseEstimator
    grid: dict[str, Any]
    paper: float


PENALTIES = {"penalty": [0.01, 0.003, 0.001]}
TASKS: dict[str, tuple[int, dict[str, Trial]]] = {  # dimensions of the random faces, methods
    "ar-face": (
        300,
        {
            "SRC": Trial(SRC(), PENALTIES, 90.3),
            # Cross-validation in session 1, of sparsity 10, 30, 50, 100 and both factors 1e-4 to 16.
            "LC-KSVD": Trial(LCKSVD(5, sparsity=50, n_iter=20), {}, 91.9),
            "FDDL": Trial(FDDL(), {}, 92.0),
        },
    ),
    "ar-gender": (
        300,
        {
            "SRC": Trial(SRC(), PENALTIES, 92.1),
            "LC-KSVD": Trial(
                LCKSVD(n_iter=20),
                {"n_atoms": [25, 100], "sparsity": [10, 30]},
                93.4,
            ),
            "FDDL": Trial(FDDL(n_atoms=25), {"decision": ["global", "local"]}, 93.7),
        },
    ),
    "yale-b": (
        504,
        {
            "SRC": Trial(SRC(), PENALTIES, 98.1),
            # Both factors 16 and 4, 1, 0.1 and 0.01 were tried within one training part.
            "LC-KSVD": Trial(LCKSVD(), {}, 95.0),
        },
    ),
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=["SRC", "LC-KSVD", "FDDL"])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None, help="threads (default: all cores)")
    parser.add_argument("--json", type=Path, help="file of the rows")
    given = parser.parse_args()
    for name in given.only:
        protocol, (n_components, methods) = PROTOCOLS[name], TASKS[name]
        data = protocol.load(given.data)
        pixels = raw_pixels(data.images, protocol.size)
        groups = data.person if protocol.person_folds else None
        parts = protocol.splits(data, given.trials, 0)
        for method in (m for m in methods if m in given.methods):
            rows: list[Row] = []
            for seed, (train, test) in enumerate(parts):
                X = RandomFaces(n_components, random_state=seed).fit_transform(pixels)
                if seed == 0 or not np.array_equal(train, parts[seed - 1][0]):
                    inner = None if groups is None else groups[train]
                    model = prepared(methods[method], X[train], data.target[train], inner, given.jobs)
                rows.append(measure(model, X, data.target, train, test, seed))
                print(f"{name:10} {method:8} {seed} {rows[-1]['accuracy']}", flush=True)
            row = summary(name, method, methods[method].paper, rows)
            print(f"{name:10} {method:8} {row['mean']:.2f} +- {row['std']:.2f}, paper {row['paper']}\n")
            if given.json is not None:
                store(row, given.json)


def prepared(trial: Trial, X: Any, y: Any, groups: Any, n_jobs: int | None) -> BaseEstimator:
    """The estimator, with the settings that are best in cross-validation."""
    model = clone(trial.model).set_params(n_jobs=n_jobs)
    if trial.grid:
        folds = splits(make_folds(np.unique(y, return_inverse=True)[1], N_FOLDS, 0, groups))
        search = GridSearchCV(seeded(model, 0), trial.grid, cv=folds, refit=False).fit(X, y)
        model.set_params(**search.best_params_)
    return model


def seeded(model: BaseEstimator, seed: int) -> BaseEstimator:
    """A copy with this seed, if it takes one."""
    takes = "random_state" in model.get_params()
    return clone(model).set_params(**({"random_state": seed} if takes else {}))


def measure(model: BaseEstimator, X: Any, y: Any, train: Any, test: Any, seed: int) -> Row:
    """One training and its test."""
    model = seeded(model, seed)
    started = time.perf_counter()
    model.fit(X[train], y[train])
    fitted = time.perf_counter()
    accuracy = 100 * model.score(X[test], y[test])
    return {
        "accuracy": round(accuracy, 2),
        "settings": model.get_params(),
        "seconds to train": round(fitted - started, 1),
        "ms per sample": round(1000 * (time.perf_counter() - fitted) / len(test), 2),
    }


def summary(name: str, method: str, paper: float, rows: list[Row]) -> Row:
    """Mean and deviation over the trials."""
    row = make_row(name, method, "accuracy", [each["accuracy"] for each in rows], paper)
    for key in ("seconds to train", "ms per sample"):
        row[key] = round(float(np.median([each[key] for each in rows])), 2)
    return {**row, "settings": [each["settings"] for each in rows], "about": about(range(len(rows)))}


def store(row: Row, path: Path) -> None:
    """In place of the method's former row."""
    stored = json.loads(path.read_text()) if path.exists() else []
    keys = ("dataset", "method")
    write_rows([*(other for other in stored if any(other[k] != row[k] for k in keys)), row], path, [])


if __name__ == "__main__":
    main()
