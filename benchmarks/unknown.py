"""Images of none of the classes: are they told from images of the classes, and are promises kept?

    python benchmarks/unknown.py --data DIR [--only classes promise animals] [--draws 5] [--splits 20]
        [--first 0] [--preset fast] [--json benchmarks/unknown.json]

classes : models know half of the classes; how often does an image of these have a higher value than one
    of the others (area under the curve, %)? Beside our value those that are usual, on the same features
    and the same SVM: largest probability, largest score, energy, nearest training images (cosine),
    Mahalanobis distance. 20 training images of a class on Caltech-101, 60 on textures, 100 on
    sign_digits, and half of the series on traffic.
promise : `unknown` = 0.01 and 0.05; which share of test images of the classes is refused, over splits?
animals : a model of six kinds of animals; which share of the photographs of sign_digits does it refuse?

Rows in the file are kept, but for those measured anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from common import CLASSES_INSIDE, make_parser
from midfea import MidFeaClassifier
from midfea.datasets.folder import find_images, read_photos
from midfea.learning.belonging import area_under_curve
from midfea.learning.principal import principal_directions
from midfea.progress import progress_bars
from midfea.provenance import about, write_rows

ANIMALS = ("crocodile", "elephant", "kangaroo", "llama", "Leopards", "rhino")
SHARES = (0.01, 0.05)
MAX_SIDE = 150
SHRINKAGE = 0.1  # of the Mahalanobis distance's covariance
Row = dict[str, Any]
Classes = dict[str, list[Path]]


class Task(NamedTuple):
    """Training images and their labels, other images of the same classes, images of others."""

    train: list[Path]
    labels: list[str]
    known: list[Path]
    unknown: list[Path]


def classes_of(data: Path, name: str) -> Classes:
    """The image files of each class."""
    folder = data / CLASSES_INSIDE.get(name, name)
    found = {place.name: find_images([place]) for place in sorted(folder.iterdir()) if place.is_dir()}
    return {label: files for label, files in found.items() if files and label != "BACKGROUND_Google"}


def divided(
    classes: Classes, known: list[str], unknown: list[str], sizes: tuple[int, int, int], seed: int
) -> Task:
    """So many images of each class for training, for the test, and of each class that is not known."""
    rng = np.random.RandomState(seed)
    task = Task([], [], [], [])
    for label in known:
        files = [classes[label][i] for i in rng.permutation(len(classes[label]))]
        task.train.extend(files[: sizes[0]])
        task.labels.extend([label] * len(files[: sizes[0]]))
        task.known.extend(files[sizes[0] : sizes[0] + sizes[1]])
    for label in unknown:
        order = rng.permutation(len(classes[label]))[: sizes[2]]
        task.unknown.extend(classes[label][i] for i in order)
    return task


SIZES = {
    "caltech101": (20, 11, 20),
    "sign_digits": (100, 100, 100),
    "textures": (60, 40, 40),
    "traffic": (20, 15, 15),
}


def half_of_the_classes(data: Path, name: str, draw: int) -> Task:
    """Half of the classes are known; on Caltech-101 fifty, and fifty others."""
    classes = classes_of(data, name)
    order = [sorted(classes)[i] for i in np.random.RandomState(draw).permutation(len(classes))]
    half = 50 if name == "caltech101" else len(order) // 2
    if name == "traffic":  # images of one drive are nearly equal: even drives train, odd ones test
        classes = {label: by_drives(files) for label, files in classes.items()}
        return in_order(classes, order[:half], order[half:], SIZES[name])
    return divided(classes, order[:half], order[half : 2 * half], SIZES[name], draw)


def by_drives(files: list[Path]) -> list[Path]:
    """Drives one after the other, so that a cut divides at most one of them."""
    return sorted(files)


def in_order(
    classes: Classes, known: list[str], unknown: list[str], sizes: tuple[int, int, int]
) -> Task:
    """The first images of each class for training, the last ones for the test."""
    task = Task([], [], [], [])
    for label in known:
        files = classes[label]
        task.train.extend(files[: sizes[0]])
        task.labels.extend([label] * len(files[: sizes[0]]))
        task.known.extend(files[-sizes[1] :])
    for label in unknown:
        task.unknown.extend(classes[label][: sizes[2]])
    return task


def animals_and_sign_digits(data: Path, draw: int) -> Task:
    """Forty images of each animal for training, ten others; twenty photographs of each digit."""
    classes = classes_of(data, "caltech101")
    classes = {label: classes[label] for label in ANIMALS} | classes_of(data, "sign_digits")
    return divided(classes, list(ANIMALS), sorted(set(classes) - set(ANIMALS)), (40, 10, 20), draw)


def read(files: list[Path]) -> list[Any]:
    """The pictures of image files."""
    return [photo.picture for photo in read_photos(files, MAX_SIDE)[0]]


class Fitted(NamedTuple):
    """A model, and what the usual values are made of."""

    model: MidFeaClassifier
    features: Any  # (n, p), of the training images
    y: Any


def fit(task: Task, preset: str, seed: int) -> Fitted:
    """A model of the training images."""
    model = MidFeaClassifier(preset=preset, C="auto", random_state=seed, keep_features=True)
    model.fit(read(task.train), task.labels)
    return Fitted(model, model.training_features_, np.searchsorted(model.classes_, task.labels))


def nearest(k: int) -> Callable[[Fitted, Any, Any], Any]:
    return lambda fitted, logits, x: np.sort(x @ fitted.features.T, axis=1)[:, -k]


def mahalanobis(fitted: Fitted, logits: Any, x: Any) -> Any:
    """To the nearest class mean, by the covariance within the classes, in the span of the samples."""
    mean, directions = principal_directions(fitted.features, len(fitted.y) - 1)
    inside, points = ((a - mean) @ directions for a in (fitted.features, x))
    outside = np.maximum(((x - mean) ** 2).sum(axis=1) - (points**2).sum(axis=1), 0)
    means = np.stack([inside[fitted.y == label].mean(axis=0) for label in np.unique(fitted.y)])
    within = inside - means[fitted.y]
    variances, axes = np.linalg.eigh(within.T @ within / len(within))
    floor = SHRINKAGE * variances.mean()
    whiten = axes / np.sqrt(np.maximum(variances, 0) + floor)
    difference = (points @ whiten)[:, None] - (means @ whiten)[None]
    return -(np.square(difference).sum(axis=2).min(axis=1) + outside / floor)


VALUES: dict[str, Callable[[Fitted, Any, Any], Any]] = {
    "belonging": lambda fitted, logits, x: fitted.model.belonging_.values(logits, x),
    "largest probability": lambda fitted, logits, x: logits.max(axis=1) - logsumexp(logits, axis=1),
    "largest score": lambda fitted, logits, x: logits.max(axis=1),
    "energy": lambda fitted, logits, x: logsumexp(logits, axis=1),
    "nearest image": nearest(1),
    "five nearest images": nearest(5),
    "Mahalanobis": mahalanobis,
}


def measure_classes(task: Task, preset: str, draw: int) -> Row:
    """The area under the curve by each value, and what is refused at each share."""
    with progress_bars():
        fitted = fit(task, preset, draw)
        parts = fitted.model.parts_
        sides = []
        for files in (task.known, task.unknown):
            pictures = read(files)
            scores = parts.answers(pictures, 2).scores
            sides.append((parts.logits(scores), parts.extractor.transform(pictures, 2)))
    area = {
        name: round(100 * area_under_curve(*(value(fitted, *side) for side in sides)), 2)
        for name, value in VALUES.items()
    }
    refused = {
        f"{share:g}": [
            round(100 * float((parts.belonging.of(*side) <= share).mean()), 2) for side in sides
        ]
        for share in SHARES
    }
    return {"area": area, "refused": refused, "images": [len(task.known), len(task.unknown)]}


def measure_promise(data: Path, name: str, split: int) -> Row:
    """Which share of other images of the classes is refused."""
    n_train = {"sign_digits": 50, "textures": 60, "caltech101": 15}[name]
    classes = classes_of(data, name)
    task = divided(classes, sorted(classes), [], (n_train, 60 if name == "textures" else 100, 0), split)
    with progress_bars():
        model = fit(task, "fast", split).model
        belonging = model.belonging(read(task.known))
    refused = {f"{s:g}": round(100 * float((belonging <= s).mean()), 3) for s in SHARES}
    return {"refused": refused, "images": len(belonging), "reference": len(model.belonging_.reference)}


def main() -> None:
    parser = make_parser(__doc__)
    sections = ("classes", "promise", "animals")
    parser.add_argument("--only", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--sets", nargs="+", choices=tuple(SIZES), default=list(SIZES))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--splits", type=int, default=20, help="of promise")
    parser.add_argument("--first", type=int, default=0, help="draw or split to begin with")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--json", type=Path, default=None, help="file of the rows")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.json is not None and given.json.exists():
        rows = json.loads(given.json.read_text())

    def keep(section: str, name: str, seed: int, row: Row) -> None:
        keys = {"section": section, "set": name, "preset": given.preset, "seed": seed}
        rows[:] = [other for other in rows if any(other[k] != v for k, v in keys.items())]
        rows.append(keys | row | {"about": about([seed])})
        if given.json is not None:
            write_rows(rows, given.json, [])

    for section in given.only:
        if section == "classes":
            for name in given.sets:
                for draw in range(given.first, given.draws):
                    task = half_of_the_classes(given.data, name, draw)
                    keep(section, name, draw, measure_classes(task, given.preset, draw))
                print_classes(section, name, rows)
        elif section == "animals":
            for draw in range(given.first, given.draws):
                task = animals_and_sign_digits(given.data, draw)
                keep(section, "animals", draw, measure_classes(task, given.preset, draw))
            print_classes(section, "animals", rows)
        else:
            for name in [name for name in given.sets if name in ("sign_digits", "textures")]:
                for split in range(given.first, given.splits):
                    keep(section, name, split, measure_promise(given.data, name, split))
                print_promise(name, rows)


def print_classes(section: str, name: str, rows: list[Row]) -> None:
    found = [row for row in rows if (row["section"], row["set"]) == (section, name)]
    for preset in sorted({row["preset"] for row in found}):
        own = [row for row in found if row["preset"] == preset]
        print(f"\n{name}, {preset}, {len(own)} draws: area under the curve, %")
        for value in VALUES:
            areas = [row["area"][value] for row in own]
            print(f"  {value:24} {np.mean(areas):6.1f} ({np.std(areas):.1f})")
        for share in SHARES:
            known, unknown = np.mean([row["refused"][f"{share:g}"] for row in own], axis=0)
            print(f"  refused at {share:.0%}: {known:.1f} % of their images, {unknown:.1f} % of others")


def print_promise(name: str, rows: list[Row]) -> None:
    own = [row for row in rows if (row["section"], row["set"]) == ("promise", name)]
    print(f"\n{name}, fast, {len(own)} splits: share of the classes' images refused, %")
    for share in SHARES:
        found = [row["refused"][f"{share:g}"] for row in own]
        print(f"  {share:.0%} promised: {np.mean(found):.2f} (largest {max(found):.2f})")


if __name__ == "__main__":
    main()
