"""What the benchmarks share: one way to name the data, the data sets, images of each class."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from midfea.datasets import load_folder
from midfea.reproduce.protocols import PROTOCOLS

CLASSES_INSIDE = {"caltech101": "caltech101/101_ObjectCategories"}  # the folder that holds the classes


def make_parser(doc: str, needs_data: bool = True) -> argparse.ArgumentParser:
    """With --data, the folder that holds the data sets' folders; $MIDFEA_DATA if it is not given."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    known = os.environ.get("MIDFEA_DATA")
    help = "folder of the data sets (default: $MIDFEA_DATA)"
    needed = needs_data and not known
    parser.add_argument("--data", type=Path, metavar="DIR", default=known, required=needed, help=help)
    return parser


def add_set(parser: argparse.ArgumentParser, default: str = "sign_digits") -> None:
    """--set, a folder in --data with one folder of images for each class."""
    parser.add_argument("--set", default=default, dest="name", help=f"default: {default}")


def class_folder(given: argparse.Namespace) -> Path:
    """The folder named by --data and --set."""
    return given.data / CLASSES_INSIDE.get(given.name, given.name)


def some_of_each(y: Any, n: int | None, seed: int, among: Any = None) -> Any:
    """Indices of `n` samples of each class, drawn at random; those of a smaller n are among them."""
    among = np.arange(len(y)) if among is None else among
    if n is None:
        return among
    rng = np.random.RandomState(seed)
    parts = [rng.permutation(among[y[among] == c])[:n] for c in np.unique(y[among])]
    return np.sort(np.concatenate(parts))


class Set(NamedTuple):
    """Images, class numbers, splits into training and test, groups that no split may divide."""

    images: Any
    y: Any
    splits: list[tuple[Any, Any]]
    groups: Any


def _halves(name: str) -> Callable[[Path, int], Set]:
    """A folder of classes, half of each for training."""

    def load(data: Path, splits: int) -> Set:
        photos = load_folder(data / name)
        y = np.unique(photos.target, return_inverse=True)[1]
        made = []
        for seed in range(splits):
            rng = np.random.RandomState(seed)
            shuffled = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
            halves = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in shuffled]
            train, test = (np.sort(np.concatenate(side)) for side in zip(*halves, strict=True))
            made.append((train, test))
        return Set(photos.images, y, made, None)

    return load


def _protocol(name: str) -> Callable[[Path, int], Set]:
    def load(data: Path, splits: int) -> Set:
        protocol = PROTOCOLS[name]
        bunch = protocol.load(data)
        y = np.unique(bunch.target, return_inverse=True)[1]
        groups = np.asarray(bunch.person) if protocol.person_folds else None
        return Set(bunch.images, y, protocol.splits(bunch, splits, 0), groups)

    return load


SETS = {"sign_digits": _halves("sign_digits")}
SETS |= {name: _protocol(name) for name in ("ar-face", "ar-gender", "yale-b", "caltech101")}
