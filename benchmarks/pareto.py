"""Accuracy against time: our presets, other features with a linear SVM, and the convnet from scratch.

    python benchmarks/pareto.py --data DATA [--set sign-digits] [--splits 1] [--only hog fast]
        [-o pareto.png] [--json FILE]

Same splits and same cores for all, training time included. DATA is as for `midfea reproduce`; the sets
are those of benchmarks/rival.py, whose convnet this is. Needs torch; SIFT needs OpenCV and LBP needs
scikit-image, and each is left out, which is said, where that is not installed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from midfea import MidFeaClassifier
from midfea.bench.methods import METHODS, with_svm
from midfea.images import Images, resize
from midfea.learning.network import square
from midfea.parallel import in_parallel
from midfea.progress import progress_bars
from midfea.stages import unit_length
from midfea.thumbnails import eight_bits
from rival import SETS, per_class, run_convnet

NEEDS = {"sift": "cv2", "lbp": "skimage"}
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


def finetuned(preset: Any) -> Callable[..., Any]:
    def learn(images: list[Any], labels: Any, seed: int, n_threads: int) -> Any:
        model = MidFeaClassifier(
            preset=preset, C="cv", finetune=True, random_state=seed, n_jobs=n_threads
        )
        return model.fit(images, labels).predict

    return learn


def methods() -> dict[str, Callable[..., Any]]:
    """(images, labels, seed, threads) -> a function from images to labels; all but the convnet."""
    found = {name: learn for name, (_, learn) in METHODS.items()}
    found["lbp"] = with_svm(lbp)
    for preset in ("fast", "best"):
        found[f"{preset}, fine-tuned"] = finetuned(preset)
    return found


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
            ax.plot(x, y, "o" if ours else "s", color="#0072b2" if ours else "#d55e00")
            ax.annotate(name, (x, y), (5, 4), textcoords="offset points", fontsize=9)
        ax.set_xscale("log")
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
        ax.margins(x=0.25)
    axes[0].set_ylabel("accuracy, mean of the classes (%)")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, default="sign-digits", dest="name")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    images, y, splits = SETS[given.name](given.data, given.splits)
    greys = Images(images)
    squares = np.stack(list(in_parallel(lambda i: square(greys.grey(i)), range(len(greys)), 2)))
    ways = methods()
    rows = []
    for name in given.only or [*ways, "convnet"]:
        if name in NEEDS and not find_spec(NEEDS[name]):
            print(f"{name} is left out: {NEEDS[name]} is not installed")
            continue
        for number, (train, test) in enumerate(splits):
            begun = time.perf_counter()
            with progress_bars():
                if name == "convnet":
                    answer = run_convnet(squares, y, train)
                    known = time.perf_counter()
                    answers = answer(test)
                else:
                    answer = ways[name]([images[i] for i in train], y[train], number, 2)
                    known = time.perf_counter()
                    answers = answer([images[i] for i in test])
            row = {
                "set": given.name,
                "split": number,
                "method": name,
                "mean per-class accuracy": round(per_class(answers, y[test]), 2),
                "seconds to train": round(known - begun, 1),
                "ms per image": round(1e3 * (time.perf_counter() - known) / len(test), 2),
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    if given.output:
        title = f"{given.name}: {len(splits[0][0])} images to learn from, {len(splits)} split(s)"
        draw(rows, given.output, title)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
