"""Accuracy against time: our presets, other features with a linear SVM, and the convnet from scratch.

    python benchmarks/pareto.py --data DIR [--set sign_digits] [--splits 1] [--per-class 1 2 5]
        [--only hog fast] [--at-most N] [--engine torch] [--kymatio PYTHON] [-o pareto.png] [--json FILE]
    python benchmarks/pareto.py --rows FILE.json [--set sign_digits] [-o curve.png]

Same splits and same cores for all, training time included. The convnet is that of benchmarks/rival.py
("convnet, relit" if asked for). "best, ..." is the final system with a part removed: `--only ablation`
runs all of them; "fast, with neurons" has the NS layer. `--per-class` learns from so many images of each
class, the rest of the training part unseen; `--at-most` bounds the test images of a class; `--rows`
prints and draws what was measured before, such as benchmarks/accuracy.json. Needs torch; SIFT needs
OpenCV, LBP scikit-image and scattering an interpreter with kymatio; what is missing is left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import SETS, make_parser, some_of_each
from midfea import MidFeaClassifier
from midfea.baselines import FEATURES, FeatureSVM
from midfea.baselines.registry import SYSTEMS
from midfea.bench.methods import Classifier
from midfea.bench.peers import check_kymatio
from midfea.learning.network.settings import NetworkSettings
from midfea.pictures.images import Images, Pictures
from midfea.pictures.picture import Picture
from midfea.pictures.resize import resize
from midfea.pictures.thumbnails import eight_bits
from midfea.progress import progress_bars
from midfea.provenance import about, write_rows
from midfea.reproduce.evaluate import per_class
from midfea.stages import unit_length
from pareto_plot import draw_curves, draw_times, print_means
from rival import Convnet
from scattering import scattering

# Seed, threads, engine, number of classes -> a classifier to fit.
Make = Callable[[int, int, str, int], Any]
Row = dict[str, Any]
NEURONS = {"neurons_per_class": 10}
NEEDS = {"lbp": "skimage", "scattering": "kymatio"}
LBP_CELLS, LBP_SIDE = 6, 96  # cells in a row, pixels


class NetworkAlone(MidFeaClassifier):
    """The scores of the network without the linear head's."""

    def fit(self, images: Any, y: Any, groups: Any = None) -> NetworkAlone:
        super().fit(images, y, groups)
        if self.network_ is not None:
            self.network_ = replace(self.network_, weights=self.network_.weights * [0, 1, 1])
        return self


class InGrey(MidFeaClassifier):
    """Colours are not seen."""

    def fit(self, images: Any, y: Any, groups: Any = None) -> InGrey:
        super().fit(_in_grey(images), y, groups)
        return self

    def predict(self, images: Any) -> Any:
        return super().predict(_in_grey(images))


def _in_grey(images: Any) -> list[Picture]:
    return [Picture(p.grey, (), p.white) for p in Pictures(Images(images), max_side=None)]


def ours(
    preset: str,
    kind: type[MidFeaClassifier] = MidFeaClassifier,
    neurons_per_class: int = 0,
    **settings: Any,
) -> Make:
    """A preset as `midfea train` has it, with other settings."""

    def make(seed: int, n_jobs: int, engine: str, n_classes: int) -> Any:
        common = {"C": "auto", "random_state": seed, "n_jobs": n_jobs, "engine": engine}
        neurons = neurons_per_class * n_classes or None
        return kind(preset=preset, selectivity=neurons, **common, **settings)

    return make


def network(**settings: Any) -> Make:
    """`best` whose network differs in this."""
    return ours("best", network=NetworkSettings(**settings))


def baseline(feature: Any) -> Make:
    return lambda seed, n_jobs, engine, n_classes: FeatureSVM(feature, n_jobs, seed)


def lbp(images: Any, seed: int) -> Callable[[Any], Any]:
    """Uniform local binary patterns, their histograms in 6x6 cells, square roots."""
    from skimage.feature import local_binary_pattern

    def extract(image: Any) -> Any:
        pixels = eight_bits(resize(image, (LBP_SIDE, LBP_SIDE)))
        codes = local_binary_pattern(pixels, 8, 1, "nri_uniform").astype(int)
        side = LBP_SIDE // LBP_CELLS
        cells = codes.reshape(LBP_CELLS, side, LBP_CELLS, side).swapaxes(1, 2).reshape(LBP_CELLS**2, -1)
        counts = np.stack([np.bincount(cell, minlength=59) for cell in cells])
        return unit_length(np.sqrt(counts).ravel().astype(np.float32))

    return extract


ABLATION: dict[str, Make] = {
    "best": ours("best"),
    "best, no network": ours("best", finetune=False),
    "best, network alone": ours("best", NetworkAlone),
    "best, network from a random start": network(unsupervised_start=False),
    "best, network with one view": network(view_shift=0),
    "best, network without moved images": network(shift=0.0, scale=0.0, rotation=0.0, view_shift=0),
    "best, network without images lit from a side": network(shading=0.0),
    "best, network without relit images": network(lighting=0.0),
    "best, network without layers from the pixels": network(pixel_layers=False),
    "best, grey": ours("best", InGrey),
    "best, one scale": ours("best", scales=(1.0,)),
    "best, three scales": ours("best", scales=(1.0, 0.71, 0.5)),
    "best, pyramid": ours("best", partition="pyramid"),
    "best, 6x6 cells": ours("best", partition=(6, 6)),
    "best, 1000 words": ours("best", n_words=1000),
    "best, hard VQ": ours("best", encoding="vq"),
    "best, 2x2 windows": ours("best", window=2),
    "best, 9 filters": ours("best", n_filters=9),
    "best, no floor": ours("best", floor=0.0),
    "best, floor 0.5": ours("best", floor=0.5),
    "best, with neurons": ours("best", **NEURONS),
}


def all_methods(kymatio: str | None, device: str) -> dict[str, Make]:
    methods = {name: baseline(name) for name in FEATURES}
    methods["sift"] = lambda seed, n_jobs, engine, n_classes: SYSTEMS["sift"].make(seed, n_jobs)
    methods |= {"lbp": baseline(lbp), "scattering": baseline(scattering(kymatio or ""))}
    for preset in ("paper", "fast"):
        methods |= {preset: ours(preset), f"{preset}, with neurons": ours(preset, **NEURONS)}
    for name, light in (("convnet", False), ("convnet, relit", True)):
        methods[name] = lambda *given, light=light: Convnet(device, light)
    return methods | ABLATION


def run(given: argparse.Namespace) -> list[Row]:
    """A row for each method, number of training images and split, printed as it is measured."""
    data = SETS[given.name](given.data, given.splits)
    device = "cuda" if given.engine == "torch" and torch.cuda.is_available() else "cpu"
    methods = all_methods(given.kymatio, device)
    standard = [name for name in methods if "," not in name]
    names = list(ABLATION) if given.only == ["ablation"] else given.only or standard
    splits = list(enumerate(data.splits))[given.first :]
    rows = []
    for name, n, (number, (train, test)) in itertools.product(names, given.per_class or [None], splits):
        here = given.kymatio if name == "scattering" else find_spec(NEEDS.get(name, "midfea"))
        if not here:
            print(f"{name} is left out: {NEEDS[name]} is not installed")
            continue
        train = some_of_each(data.y, n, number, train)
        test = some_of_each(data.y, given.at_most, 0, test)
        model = methods[name](number, given.threads, given.engine, len(np.unique(data.y)))
        row = {"set": given.name, "split": number, "method": name}
        row |= {"per class": n, "at most": given.at_most, **measure(model, data, train, test)}
        rows.append(row | {"about": about([number])})
        print(json.dumps(row), flush=True)
    return rows


def measure(model: Classifier, data: Any, train: Any, test: Any) -> Row:
    groups = None if data.groups is None else data.groups[train]
    with progress_bars():
        started = time.perf_counter()
        model.fit([data.images[i] for i in train], data.y[train], groups)
        trained = time.perf_counter()
        correct = model.predict([data.images[i] for i in test]) == data.y[test]
        ended = time.perf_counter()
    return {
        "mean per-class accuracy": round(per_class(correct, data.y[test]), 2),
        "accuracy": round(100 * float(correct.mean()), 2),
        "training images": len(train),
        "seconds to train": round(trained - started, 1),
        "ms per image": round(1e3 * (ended - trained) / len(test), 2),
    }


def main() -> None:
    parser = make_parser(__doc__, needs_data="--rows" not in sys.argv)
    parser.add_argument("--rows", type=Path, help="measure nothing, print and draw these rows")
    parser.add_argument("--set", choices=SETS, default="sign_digits", dest="name")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="leave out the splits before this one")
    parser.add_argument("--per-class", nargs="+", type=int)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--kymatio", metavar="PYTHON")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.rows:
        rows = [row for row in json.loads(given.rows.read_text()) if row["set"] == given.name]
    else:
        if given.kymatio:
            try:
                check_kymatio(given.kymatio)
            except ValueError as error:
                parser.error(str(error))
        rows = run(given)
    print_means(rows)
    if given.json:
        write_rows(rows, given.json, [])
    if given.output:
        curves = [row for row in rows if row["per class"]]
        (partial(draw_curves, curves) if curves else partial(draw_times, rows))(given.output, given.name)


if __name__ == "__main__":
    main()
