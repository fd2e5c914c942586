"""Curves of accuracy on AR: Fig. 3 and Fig. 7.

self_taught: beside self-taught learning (ST, Raina et al. 2007). Sparse codes of a labelled face over
bases learned from unlabelled faces are its features (`midfea.baselines.self_taught`). As in the paper
the faces are coded whole, so that there are as many features as bases, and without unlabelled faces the
bases are random. Faces are reduced to 30x22 pixels, without mean and of unit length. Sparse codes lose
what tells people apart: the sparser, the lower the accuracy.

parameters: against those of the neuron-selectivity layer. One parameter at a time is changed, the others
keep the layer's defaults; features and split stay the same, and so does the SVM's C (see `evaluate`), so
that a curve shows the layer and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from numpy.typing import NDArray

from midfea.baselines.raw_pixels import raw_pixels
from midfea.baselines.self_taught import learn_bases, sparse_codes
from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.learning.folds import make_folds
from midfea.learning.folds import split as split_at
from midfea.learning.head import Features
from midfea.parallel import n_threads
from midfea.pictures.picture import to_grey
from midfea.pictures.reading import read_image
from midfea.pictures.resize import resize
from midfea.progress import track
from midfea.provenance import Row, write_rows
from midfea.reproduce.evaluate import evaluate_classes
from midfea.reproduce.features import first_split
from midfea.reproduce.protocols import PROTOCOLS, Method
from midfea.view.style import COLOURS, new_figure, save

COUNTS = (0, 1000, 2000, 8000)
BASES = (200, 600)
SIZE = (30, 22)  # half of AR's height and width
LEARNING_PENALTY = 0.05  # of codes that are not zero
CODING_PENALTIES = (0.005, 0.02)  # to choose from on the training faces
FACTORS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)  # times the default; 0 leaves the term out
NEURONS = (2, 4, 6, 10, 20, 50)
LETTERS = {"alpha": "α", "beta": "β", "gamma": "γ", "lam": "λ"}
MARKERS = ("o", "s", "^", "D")
Faces = NDArray[np.float64]  # (n, pixels)


class Task:
    """A protocol of AR: one split, the paper's features, and the accuracy of methods on it."""

    def __init__(self, name: str, data: Path, seed: int) -> None:
        self.name, self.seed = name, seed
        self.images, self.split, self.features = first_split(name, data, seed, cache=None)
        self.methods = {method.name: method for method in PROTOCOLS[name].methods}
        self.groups = self.images.groups if PROTOCOLS[name].person_folds else None

    def accuracy(self, method: Method, x: Features | None = None) -> float:
        """In percent, on these features instead if they are given."""
        x = self.features if x is None else x
        target = self.images.target
        metrics = evaluate_classes(x, target, self.groups, self.split, method, self.seed)
        return round(metrics["accuracy"], 2)


# -- self-taught learning ----------------------------------------------------------------------------


def self_taught(data: Path, output: Path, seed: int) -> list[Path]:
    rows = measure_self_taught(data, seed)
    write_rows(rows, output / "self_taught.json", [seed])
    return [*save(draw_self_taught(rows), output, "self_taught"), output / "self_taught.json"]


def measure_self_taught(
    data: Path, seed: int, counts: Sequence[int] = COUNTS, sizes: Sequence[int] = BASES
) -> list[Row]:
    """A row for each point: method, number of unlabelled faces (None: uses none), accuracy in %."""
    task = Task("ar-face", data, seed)
    images, people, train = task.images.images, task.images.target, task.split[0]
    plain, layered = task.methods["MidFea"], task.methods["MidFea-NS"]
    rows: list[Row] = [
        {"method": name, "unlabelled": None, "accuracy": task.accuracy(method, x)}
        for name, method, x in (
            ("raw pixels", plain, raw_pixels(images, None)),
            ("MidFea", plain, None),
            ("MidFea-NS", layered, None),
        )
    ]
    labelled = small_faces(images)
    unlabelled = unlabelled_faces(data, max(counts), seed)
    points = [(k, n) for k in sizes for n in counts]
    for k, n in track(points, "self-taught learning", len(points)):
        rng = np.random.RandomState(seed)
        bases = learn_bases(unlabelled[:n], k, LEARNING_PENALTY, rng, n_threads=n_threads(None))
        penalty = choose_penalty(labelled[train], people[train], bases, seed)
        codes = face_codes(labelled, bases, penalty)
        for name, method in ((f"ST ({k})", plain), (f"ST-NS ({k})", layered)):
            row = {"method": name, "unlabelled": n, "accuracy": task.accuracy(method, codes)}
            rows.append({**row, "penalty": penalty})
    return rows


def unlabelled_faces(data: Path, n: int, seed: int) -> Faces:
    """So many of the unlabelled faces, in random order, cut to the shape of AR's."""
    folder = data / "unlabelled_faces"
    paths = sorted(folder.glob("*.jpg"))
    if len(paths) < n:
        raise ValueError(
            f"{folder}: {n} unlabelled faces (00000.jpg, ...) are needed, found {len(paths)}"
        )
    chosen = np.random.RandomState(seed).permutation(len(paths))[:n]
    images = []
    for i in track(chosen, "unlabelled faces", n):
        image = to_grey(read_image(paths[i]))
        height, width = image.shape
        margin = max(0, (width - round(height * SIZE[1] / SIZE[0])) // 2)
        images.append(image[:, margin : width - margin])
    return small_faces(images)


def small_faces(images: Sequence[NDArray[Any]]) -> Faces:
    """The images at `SIZE` as rows without mean and of unit length."""
    rows = np.zeros((len(images), SIZE[0] * SIZE[1]))
    for row, image in zip(rows, images, strict=True):
        row[:] = resize(image, SIZE).ravel()
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def choose_penalty(faces: Faces, people: NDArray[Any], bases: Faces, seed: int) -> float:
    """The penalty with the best accuracy on a third of the faces, learned from the others."""
    split = split_at(make_folds(np.unique(people, return_inverse=True)[1], 3, seed), 0)

    def validation_accuracy(penalty: float) -> float:
        codes = face_codes(faces, bases, penalty)
        return evaluate_classes(codes, people, None, split, Method("ST"), seed)["accuracy"]

    return max(CODING_PENALTIES, key=validation_accuracy)


def face_codes(faces: Faces, bases: Faces, penalty: float) -> Features:
    return sparse_codes(faces, bases, penalty, n_threads(None)).astype(np.float32)


def draw_self_taught(rows: Sequence[Row]) -> Figure:
    """Accuracy against the number of unlabelled faces; methods that use none are level lines."""
    figure = new_figure(6.4, 4.2)
    axes = figure.subplots()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    counts = sorted({row["unlabelled"] for row in rows if row["unlabelled"] is not None})
    places = {count: place for place, count in enumerate(counts)}  # evenly, 0 among them
    for colour, method in zip(COLOURS * 2, methods, strict=False):
        points = [row for row in rows if row["method"] == method]
        if points[0]["unlabelled"] is None:
            level = points[0]["accuracy"]
            axes.axhline(level, color=colour, linestyle="--", label=f"{method}: {level:.1f}")
        else:
            x = [places[row["unlabelled"]] for row in points]
            y = [row["accuracy"] for row in points]
            axes.plot(x, y, color=colour, marker="s" if "NS" in method else "o", label=method)
    axes.set_xticks(list(places.values()), [f"{count:,}" for count in counts])
    axes.set(xlabel="unlabelled faces (0: a random dictionary)", ylabel="accuracy on AR faces (%)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


# -- parameters of the layer -------------------------------------------------------------------------


def parameters(data: Path, output: Path, seed: int) -> list[Path]:
    rows = measure_parameters(data, seed)
    write_rows(rows, output / "parameters.json", [seed])
    return [*save(draw_parameters(rows), output, "parameters"), output / "parameters.json"]


def measure_parameters(
    data: Path, seed: int, factors: Sequence[float] = FACTORS, neurons: Sequence[int] = NEURONS
) -> list[Row]:
    """Rows {"task", "parameter", "value", "accuracy"}, factors also with "times default".

    Parameter None: the features without the layer.
    """
    faces, gender = Task("ar-face", data, seed), Task("ar-gender", data, seed)
    rows: list[Row] = []
    for task in (faces, gender):
        accuracy = task.accuracy(task.methods["MidFea"])
        rows.append({"task": task.name, "parameter": None, "value": None, "accuracy": accuracy})
    defaults = NeuronSelectivity().get_params()
    points = [(name, factor) for name in LETTERS for factor in factors]
    for name, factor in track(points, "parameters", len(points)):
        value = float(f"{factor * defaults[name]:.6g}")
        method = replace(faces.methods["MidFea-NS"], selectivity={name: value})
        row = {"task": "ar-face", "parameter": name, "value": value, "times default": factor}
        rows.append({**row, "accuracy": faces.accuracy(method)})
    for n in track(neurons, "numbers of neurons", len(neurons)):
        accuracy = gender.accuracy(Method("MidFea-NS", neurons=n))
        rows.append({"task": "ar-gender", "parameter": "n_neurons", "value": n, "accuracy": accuracy})
    return rows


def draw_parameters(rows: Sequence[Row]) -> Figure:
    """(a) faces against the four factors, twice; (b) gender against the number of neurons."""
    figure = new_figure(13, 3.8)
    whole, close, right = figure.subplots(1, 3)
    levels = {row["task"]: row["accuracy"] for row in rows if row["parameter"] is None}
    for axes in (whole, close):
        _draw_factors(axes, [row for row in rows if row["parameter"] in LETTERS])
    whole.set(title="(a) face recognition", ylim=(0, 101))
    limits = levels["ar-face"] - 4, min(levels["ar-face"] + 2, 100)
    close.set(title="(a) face recognition, close up", ylim=limits)
    points = [row for row in rows if row["parameter"] == "n_neurons"]
    x, y = [row["value"] for row in points], [row["accuracy"] for row in points]
    right.plot(x, y, color=COLOURS[0], marker="o", label="with the NS layer")
    right.set_xscale("log")
    right.set_xticks(x)
    right.minorticks_off()
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.set(xlabel="number of neurons", ylabel="accuracy on AR gender (%)")
    right.set(title="(b) gender classification", ylim=(min(*y, levels["ar-gender"]) - 3, 100))
    for axes, task in ((whole, "ar-face"), (close, "ar-face"), (right, "ar-gender")):
        axes.axhline(levels[task], color=COLOURS[-1], linestyle="--", label="without the layer")
    for axes in (whole, right):
        axes.legend(frameon=False, loc="lower left")
    return figure


def _draw_factors(axes: Axes, rows: Sequence[Row]) -> None:
    """Powers of ten at even steps, as on a log axis, with zero beside them."""
    factors = sorted({row["times default"] for row in rows})
    for (name, letter), colour, marker in zip(LETTERS.items(), COLOURS, MARKERS, strict=False):
        points = [row for row in rows if row["parameter"] == name]
        x = [factors.index(row["times default"]) for row in points]
        label = letter + "".join(f" (1 = {p['value']:g})" for p in points if p["times default"] == 1)
        axes.plot(x, [p["accuracy"] for p in points], color=colour, marker=marker, label=label)
    axes.set_xticks(range(len(factors)), [f"{factor:g}" for factor in factors])
    axes.set(xlabel="times its default, the others at theirs", ylabel="accuracy on AR faces (%)")
