"""The neuron-selectivity layer measured: its speed, and what it does for a linear SVM.

    python benchmarks/neuron_selectivity.py [--quick]      speed and memory, beside the plain steps
    python benchmarks/neuron_selectivity.py --data DIR --accuracy [--cache FOLDER] [--only gender]
    python benchmarks/neuron_selectivity.py --data DIR --variants [--only faces-300]
                                                           starts, lengths and decoders beside each other

Features are extracted once for each seed and kept in the cache folder, if one is
given. Test parts of Caltech-101's seeds 0 to 3 were looked at in making the layer; seeds 4 to 8 (--first
4 --seeds 5) were not. C of the SVM is chosen by validation, as in
`midfea reproduce`; on the activations of variants, whose settings are given, it is 1.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import CLASSES_INSIDE, make_parser, some_of_each
from midfea import MidFea, NeuronSelectivity
from midfea.baselines.linear_svm import fit_svm
from midfea.datasets import load_ar, load_folder
from midfea.learning.ns_layer import INPUT_LENGTH
from midfea.reproduce.evaluate import evaluate_classes
from midfea.reproduce.protocols import PROTOCOLS, Method
from midfea.reproduce.run import paired_t
from midfea.trials import content_key


class Task(NamedTuple):
    """A data set with the settings of its features; neurons of each class, tried one after the other."""

    settings: dict[str, Any]
    neurons: tuple[int, ...]
    n_seeds: int


def _settings(protocol: str, method: str) -> dict[str, Any]:
    return next(dict(m.settings or {}) for m in PROTOCOLS[protocol].methods if m.name == method)


TASKS = {
    "caltech101": Task({"projection": "pca", "n_components": 1000}, (1, 3, 20), 3),
    "gender": Task(_settings("ar-gender", "MidFea"), (5,), 10),
    "gender-ours": Task(_settings("ar-face", "MidFea, ours"), (5,), 10),
    "faces": Task(_settings("ar-face", "MidFea"), (3,), 3),
    "faces-300": Task(_settings("ar-face", "MidFea, 300-d"), (3,), 10),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "start by similarities": {"init": "similarity"},
    "random start": {"init": "random"},
    "one round": {"max_iter": 1},
    "analytic decoder": {"decoder": "analytic"},
    "codes of any sign": {"nonnegative": False},
    "not centred": {"center": False},
    "length 4": {"length": 4.0},
    "length 16": {"length": 16.0},
    "length 16, beta 5": {"length": 16.0, "beta": 5.0},
    "the paper's plain steps": {"solver": "plain"},
}


def main() -> None:
    parser = make_parser(__doc__, needs_data=bool({"--accuracy", "--variants"} & set(sys.argv)))
    parser.add_argument("--accuracy", action="store_true", help="real data instead of speed")
    parser.add_argument("--variants", action="store_true", help="other settings of the layer")
    parser.add_argument("--only", choices=TASKS, help="one set alone")
    parser.add_argument("--neurons", type=int, nargs="+", help="other numbers of neurons of each class")
    parser.add_argument("--seeds", type=int, default=None, help="3, and 10 for gender, unless given")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--cache", type=Path, default=None, help="folder for extracted features")
    parser.add_argument("--quick", action="store_true", help="speed on a problem 1/27 as large")
    given = parser.parse_args()
    if not given.accuracy and not given.variants:
        speed(quick=given.quick)
        return
    for name, task in TASKS.items():
        if given.only in (None, name):
            seeds = range(given.first, given.first + (given.seeds or task.n_seeds))
            neurons = given.neurons or task.neurons
            if given.variants:
                variants(name, given.data, neurons[0], seeds, given.cache)
            else:
                accuracy(name, given.data, neurons, seeds, given.cache)


def speed(quick: bool) -> None:
    """p=3000, d=2040, N=3060, C=102: six rounds of ours and of the plain steps, same start."""
    p, d, n_classes = (1000, 680, 34) if quick else (3000, 2040, 102)
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(n_classes), 30)
    X = rng.normal(size=(n_classes, p))[y] + 2 * rng.normal(size=(len(y), p))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    print(f"p={p} d={d} N={len(y)} C={n_classes}, float32, 6 rounds")
    curves = {}
    for solver in ("proximal", "plain"):
        curve: list[tuple[float, float]] = []
        started = time.perf_counter()

        def note(n, terms, curve=curve, started=started):
            curve.append((time.perf_counter() - started, sum(terms.values())))

        NeuronSelectivity(
            d, length=INPUT_LENGTH, solver=solver, tol=1e-4, random_state=0, callback=note
        ).fit(X, y)
        curves[solver] = curve
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        values = " ".join(f"{value:.0f}" for _, value in curve)
        print(f"{solver:10} {len(curve)} rounds {curve[-1][0]:7.1f} s   peak so far {peak:.2f} GB   "
              f"objective {values}", flush=True)  # fmt: skip
    goal = max(curve[-1][1] for curve in curves.values())
    for solver, curve in curves.items():
        reached = next((seconds for seconds, value in curve if value <= goal), None)
        print(f"{solver:10} reaches {goal:.0f} after {reached:.1f} s")


def accuracy(name: str, data: Path, neurons: Any, seeds: range, cache: Path | None) -> None:
    """Mean per-class / overall accuracy of the SVM on x and on h, for each seed and in the mean."""
    gains: dict[int, list[float]] = {d: [] for d in neurons}
    for seed in seeds:
        x, y, train = features(name, data, seed, cache)
        split = np.flatnonzero(train), np.flatnonzero(~train)
        on_x = evaluate_classes(x, y, None, split, Method("x"), seed)
        print(f"{name} seed {seed}: SVM on x {show(on_x)}", flush=True)
        for d in neurons:
            started = time.perf_counter()
            method = Method("h", neurons=(d,))
            on_h = evaluate_classes(x, y, None, split, method, seed)
            gains[d].append(on_h["mean per-class accuracy"] - on_x["mean per-class accuracy"])
            print(f"  {d} neurons a class: SVM on h {show(on_h)}, {time.perf_counter() - started:.0f} s")
    for d, gain in gains.items():
        print(f"{name}, {d} neurons a class: h - x {np.mean(gain):+.2f}, deviation {np.std(gain):.2f}")


def variants(name: str, data: Path, n_per_class: int, seeds: range, cache: Path | None) -> None:
    """For each variant the accuracy on h, the gain over x with its t, and the objective."""
    on_x: list[float] = []
    on_h: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    objectives: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for seed in seeds:
        x, y, train = features(name, data, seed, cache)
        on_x.append(100 * np.mean(fit_svm(x[train], y[train], seed).predict(x[~train]) == y[~train]))
        for variant, settings in VARIANTS.items():
            layer = NeuronSelectivity(n_per_class * (int(y.max()) + 1), random_state=seed, **settings)
            h = layer.fit(x[train], y[train]).transform(x)
            svm = fit_svm(h[train], y[train], seed, None, (1.0,))
            on_h[variant].append(100 * np.mean(svm.predict(h[~train]) == y[~train]))
            objectives[variant].append(layer.objective_[-1])
        latest = " ".join(f"{values[-1]:.1f}" for values in (on_x, *on_h.values()))
        print(f"{name} seed {seed}: {latest}", flush=True)
    print(f"{name}, {len(on_x)} seeds: SVM on x {np.mean(on_x):.1f}")
    for variant, values in on_h.items():
        gains = np.subtract(values, on_x)
        print(f"  {variant}: {np.mean(values):.1f}, gain {gains.mean():+.1f} ({gains.std():.1f}), "
              f"t {paired_t(gains)}, objective {np.mean(objectives[variant]):.1f}")  # fmt: skip


def features(name: str, data: Path, seed: int, cache: Path | None) -> tuple[Any, Any, Any]:
    """x (n, p), class numbers y, and which samples are for training."""
    path = cache / f"{content_key(name, TASKS[name].settings, seed)}.npz" if cache else None
    if path and path.exists():
        stored = np.load(path)
        return stored["x"], stored["y"], stored["train"]
    if name == "caltech101":
        photos = load_folder(data / CLASSES_INSIDE["caltech101"])
        images, y = photos.images, np.unique(photos.target, return_inverse=True)[1]
        train = np.isin(np.arange(len(y)), some_of_each(y, 30, seed))
    else:
        ar = load_ar(data)
        images, faces = ar.images, name.startswith("faces")
        y = np.unique(ar.person if faces else ar.sex, return_inverse=True)[1]
        first = np.array([int(person[2:]) <= 25 for person in ar.person])
        train = ar.session == 1 if faces else first
    model = MidFea(**TASKS[name].settings, random_state=seed)
    x = model.fit([images[i] for i in np.flatnonzero(train)]).transform(images)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, x=x, y=y, train=train)
    return x, y, train


def show(metrics: dict[str, float]) -> str:
    return f"{metrics['mean per-class accuracy']:.1f} / {metrics['accuracy']:.1f}"


if __name__ == "__main__":
    main()
