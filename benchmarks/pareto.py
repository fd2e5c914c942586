"""Accuracy against time: our presets, other features with a linear SVM, and the convnet from scratch.

    python benchmarks/pareto.py --data DATA [--set sign-digits] [--splits 1] [--per-class 1 2 5]
        [--only hog fast] [--at-most N] [--engine torch] [--kymatio PYTHON] [-o pareto.png] [--json FILE]
    python benchmarks/pareto.py --rows FILE.json [--set sign-digits] [-o curve.png]

Same splits and same cores for all, training time included. DATA is as for `midfea reproduce`; the sets
are those of benchmarks/rival.py, whose convnet this is ("convnet, relit" if asked for). "best, ..." is
the final chain with a part removed: `--only ablation` runs all of them; "fast, with neurons" has the NS
layer. `--per-class` learns from so many images of each class, the rest of the training part unseen;
`--at-most` bounds the test images of a class; `--rows` tells and draws what was measured before, such as
benchmarks/accuracy.json. Needs torch; SIFT needs OpenCV, LBP scikit-image and scattering an interpreter
with kymatio; each is left out, which is said, where that is not there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from midfea import MidFeaClassifier
from midfea.bench.methods import METHODS, with_svm
from midfea.bench.scattering import check_kymatio
from midfea.estimators.presets import CHOICES
from midfea.learning.network import training as finetune
from midfea.learning.network.model import Network, square
from midfea.parallel import in_parallel
from midfea.pictures.images import Images, resize
from midfea.pictures.thumbnails import eight_bits
from midfea.progress import progress_bars
from midfea.stages import unit_length
from rival import SETS, per_class, run_convnet
from scattering import scattering

Learn = Callable[..., Any]
START = finetune.Start
NEURONS = ", with neurons"
NEEDS = {"sift": "cv2", "lbp": "skimage", "scattering": "kymatio"}
CELLS = 6


def lbp(images: list[Any], seed: int) -> Callable[[Any], Any]:
    """Uniform local binary patterns, their histograms in 6x6 cells, square roots."""
    from skimage.feature import local_binary_pattern

    def extract(image: Any) -> Any:
        codes = local_binary_pattern(eight_bits(resize(image, (96, 96))), 8, 1, "nri_uniform").astype(
            int
        )
        cells = codes.reshape(CELLS, 16, CELLS, 16).swapaxes(1, 2).reshape(CELLS**2, -1)
        counts = np.stack([np.bincount(cell, minlength=59) for cell in cells])
        return unit_length(np.sqrt(counts).ravel().astype(np.float32))

    return extract


def ours(preset: Any, neurons: int = 0, **settings: Any) -> Learn:
    """A preset as `midfea train` has it; with so many neurons for a class."""

    def learn(
        images: list[Any], labels: Any, seed: int, n_threads: int, groups: Any, engine: str
    ) -> Any:
        model = MidFeaClassifier(
            preset=preset, C="cv", random_state=seed, n_jobs=n_threads, engine=engine, **settings
        )
        if neurons:
            model.selectivity = neurons * len(np.unique(labels))
        model.fit(images, labels, groups)
        settled = {name: model.settings_[name] for name in (*CHOICES, "scales")}
        print(json.dumps(settled | _weights(model)), file=sys.stderr)
        return model.predict

    return learn


def _weights(model: Any) -> dict[str, Any]:
    if model.network_ is None:
        return {}
    found = {"weights": model.network_weights_.round(2).tolist()}
    return found | {"mirror": bool(model.network_.mirror), "planes": model.network_.n_planes}


def network_alone(*given: Any) -> Any:
    """What the network of `best` says without the SVM."""
    predict = ours("best")(*given)
    model = predict.__self__
    model.network_weights_[0] = 0
    return predict


def in_grey(images: list[Any], *given: Any) -> Any:
    predict = ours("best")(_greys(images), *given)
    return lambda others: predict(_greys(others))


def _greys(images: list[Any]) -> list[Any]:
    seen = Images(images)
    return [np.array(seen.grey(i)) for i in range(len(seen))]


def changed(*changes: tuple[Any, str, Any]) -> Learn:
    """`best` with names of the training code replaced, in training and in use."""

    @contextmanager
    def in_force() -> Iterator[None]:
        with ExitStack() as undone:
            for owner, name, value in changes:
                undone.enter_context(patch.object(owner, name, value))
            yield

    def learn(*given: Any) -> Any:
        with in_force():
            predict = ours("best")(*given)
        return in_force()(predict)  # entered anew by each call

    return learn


def random_start(filters: Any, words: Any) -> Any:
    """In place of the unsupervised solution, noise of the same size."""
    rng = np.random.RandomState(0)
    noise = rng.normal(size=filters.shape)
    noise -= noise.mean(axis=(1, 2), keepdims=True)
    noise /= np.linalg.norm(noise, axis=(1, 2), keepdims=True)
    drawn = unit_length(np.abs(rng.normal(size=words.shape)))
    return START(noise.astype(np.float32), drawn.astype(np.float32))


def _no_path(path: Any) -> Any:
    return lambda self, image: 0 * path(self, image)


ABLATION: dict[str, Learn] = {
    "best": ours("best"),
    "best, no network": ours("best", finetune=False),
    "best, network alone": network_alone,
    "best, network from a random start": changed((finetune, "Start", random_start)),
    "best, network with one view": changed((finetune, "MOVED", 0)),
    "best, network without moved copies": changed(
        (finetune, "augmented", lambda images, *_: images), (finetune, "MOVED", 0)
    ),
    "best, network without copies lit from a side": changed(
        (finetune, "shaded", lambda images, *_: images)
    ),
    "best, network without relit copies": changed((finetune, "relit", lambda images, *_: images)),
    "best, network without layers from the pixels": changed(
        (finetune._Module, "path", _no_path(finetune._Module.path)),
        (Network, "_path", _no_path(Network._path)),
    ),
    "best, grey": in_grey,
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
    f"best{NEURONS}": ours("best", neurons=10),
}


def methods(kymatio: str | None) -> dict[str, Learn]:
    """(images, labels, seed, threads, groups, engine) -> a function from images to labels; all but the
    convnet."""

    def plain(learn: Any) -> Learn:
        return lambda images, labels, seed, n_threads, *_: learn(images, labels, seed, n_threads)

    found = {name: plain(learn) for name, (_, learn) in METHODS.items()}
    found["lbp"] = plain(with_svm(lbp))
    found["scattering"] = plain(with_svm(scattering(kymatio or "")))
    for preset in ("paper", "fast"):
        found |= {preset: ours(preset), preset + NEURONS: ours(preset, neurons=10)}
    return found | ABLATION


def draw(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    names = list(dict.fromkeys(row["method"] for row in rows))
    for ax, key, label in (
        (axes[0], "seconds to train", "seconds to train, two cores"),
        (axes[1], "ms per image", "milliseconds for an image, two cores"),
    ):
        for name in names:
            mine = [row for row in rows if row["method"] == name]
            x = np.mean([row[key] for row in mine])
            y = np.mean([row["mean per-class accuracy"] for row in mine])
            ours = name.split(",")[0] in ("paper", "fast", "best")
            colour = "#0072b2" if ours else "#d55e00"
            ax.plot(x, y, "o" if ours else "s", color=colour)
            side = {"xytext": (-7, -3), "ha": "right"} if ours else {"xytext": (7, -3)}
            ax.annotate(name, (x, y), textcoords="offset points", fontsize=9, color=colour, **side)
        ax.set_xscale("log")
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
        ax.margins(x=0.25)
    axes[0].set_ylabel("accuracy, mean of the classes (%)")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)


def draw_curve(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        sizes = sorted({row["per class"] for row in mine})
        if len(sizes) < 3:  # not a curve
            continue
        means = [
            np.mean([row["mean per-class accuracy"] for row in mine if row["per class"] == n])
            for n in sizes
        ]
        style = "o-" if name.split(",")[0] in ("paper", "fast", "best") else "s--"
        ax.plot(sizes, means, style, label=name)
    ax.set_xlabel("training images of each class")
    ax.set_ylabel("accuracy, mean of the classes (%)")
    ax.grid(alpha=0.3)
    ax.legend()
    ax.set_title(title)
    figure.savefig(path, dpi=130)


def first_of_class(chosen: Any, y: Any, n: int | None, seed: int) -> Any:
    """`n` of each class, drawn at random; the first ones of a larger draw are those of a smaller."""
    if n is None:
        return chosen
    rng = np.random.RandomState(seed)
    parts = [rng.permutation(chosen[y[chosen] == c])[:n] for c in np.unique(y[chosen])]
    return np.sort(np.concatenate(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--set", choices=SETS, default="sign-digits", dest="name")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="leave out the splits before this one")
    parser.add_argument("--per-class", nargs="+", type=int)
    parser.add_argument("--at-most", type=int)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--kymatio", metavar="PYTHON")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.rows:
        found = [row for row in json.loads(given.rows.read_text()) if row["set"] == given.name]
        curves = [row for row in found if row["per class"]]
        tell(found)
        if given.output:
            (draw_curve if curves else draw)(curves or found, given.output, given.name)
        return
    if not given.data:
        parser.error("--data or --rows is needed")
    if given.kymatio:
        try:
            check_kymatio(given.kymatio)
        except ValueError as error:
            parser.error(str(error))
    rows = run(given)
    tell(rows)
    if given.output:
        (draw_curve if given.per_class else draw)(rows, given.output, given.name)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


def run(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each method, number of training images and split, printed as it is measured."""
    images, y, splits, groups = SETS[given.name](given.data, given.splits)
    greys = Images(images)
    squares = np.stack(list(in_parallel(lambda i: square(greys.grey(i)), range(len(greys)), 2)))
    ways = methods(given.kymatio)
    standard = [name for name in ways if not name.endswith(NEURONS) and name not in ABLATION]
    standard.append("best")
    wanted = given.only or [*standard, "convnet"]
    wanted = list(ABLATION) if wanted == ["ablation"] else wanted
    n_threads = int(os.environ.get("MIDFEA_THREADS", "2"))
    device = "cuda" if given.engine == "torch" and torch.cuda.is_available() else "cpu"
    rows = []
    tasks = itertools.product(wanted, given.per_class or [None], list(enumerate(splits))[given.first :])
    for name, per, (number, (train, test)) in tasks:
        here = given.kymatio if name == "scattering" else find_spec(NEEDS.get(name, "midfea"))
        if not here:
            print(f"{name} is left out: {NEEDS[name]} is not there")
            continue
        train, test = first_of_class(train, y, per, number), first_of_class(test, y, given.at_most, 0)
        begun = time.perf_counter()
        with progress_bars():
            if name.startswith("convnet"):
                answer = run_convnet(squares, y, train, device, light=name.endswith("relit"))
                known = time.perf_counter()
                answers = answer(test)
            else:
                together = None if groups is None else groups[train]
                learn = ways[name]
                answer = learn(
                    [images[i] for i in train], y[train], number, n_threads, together, given.engine
                )
                known = time.perf_counter()
                answers = answer([images[i] for i in test])
        row = {
            "set": given.name,
            "split": number,
            "method": name,
            "per class": per,
            "at most": given.at_most,
            "mean per-class accuracy": round(per_class(answers, y[test]), 2),
            "accuracy": round(100 * float((answers == y[test]).mean()), 2),
            "training images": len(train),
            "seconds to train": round(known - begun, 1),
            "ms per image": round(1e3 * (time.perf_counter() - known) / len(test), 2),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def tell(rows: list[dict[str, Any]]) -> None:
    """Mean and deviation over the splits; on the same splits, how much better `best` is than each
    method, and what neurons are worth."""
    cases: dict[Any, dict[int, float]] = {}
    for row in rows:
        case = (row["per class"], row["at most"], row["method"])
        cases.setdefault(case, {})[row["split"]] = row["mean per-class accuracy"]
    order = sorted(cases.items(), key=lambda case: (case[0][0] or 1000, case[0][2]))
    for (per, at_most, name), found in order:
        values = list(found.values())
        best = cases.get((per, at_most, "best"), {})
        apart = [best[split] - value for split, value in found.items() if split in best]
        learned = f"{per} of each class, " if per else ""
        line = f"{learned}{name}: {np.mean(values):.2f} ({np.std(values):.2f}), {len(values)} splits"
        if apart and name != "best":
            line += f"; best is better by {np.mean(apart):z.2f} ({np.std(apart):.2f})"
        without = cases.get((per, at_most, name.removesuffix(NEURONS)), {})
        gain = [value - without[split] for split, value in found.items() if split in without]
        if gain and name.endswith(NEURONS):
            line += f"; neurons are worth {np.mean(gain):.2f} ({np.std(gain):.2f})"
        print(line)


if __name__ == "__main__":
    main()
