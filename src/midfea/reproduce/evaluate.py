"""Learn from the training samples, answer for the test samples, count.

Everything open is chosen on the training samples: C of the SVM and of the regression by
cross-validation in three folds, which keep each person together where the protocol says so. On the
activations of the neuron-selectivity layer C is 1: to validate it the layer must be learned anew
for each fold, and on AR and Caltech-101 that hardly tells 0.1 from 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.svm import SVR

from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.estimators.selective import centred
from midfea.learning.svm import fit_linear_svm, margins_to_scores
from midfea.reproduce.features import Features
from midfea.reproduce.protocols import Method, Split

C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
AGE_C_GRID = (3.0, 10.0, 30.0)
AGE_BIN = 10  # years: the classes of the layer's neurons


def evaluate_classes(
    x: Features,
    y: NDArray[Any],
    groups: NDArray[Any] | None,
    split: Split,
    method: Method,
    seed: int,
    most_tested: int | None = None,
    uncounted: str | None = None,
) -> dict[str, float]:
    """Percent right of the test samples: the mean over the classes, and overall."""
    train, test = split
    numbers = np.unique(y, return_inverse=True)[1]
    Cs: tuple[float, ...] = C_GRID
    if method.neurons:
        x, Cs = activations(x, numbers, split, method, seed), (1.0,)
    x = standardised(x, x[train])
    C = Cs[0]
    if len(Cs) > 1:
        right = np.zeros(len(Cs))
        for a, b in _class_folds(train, numbers, groups, seed):
            right += [(_answers(x, numbers, a, b, C) == numbers[b]).sum() for C in Cs]
        C = Cs[int(right.argmax())]
    answers = _answers(x, numbers, train, test, C)
    hits = answers == numbers[test]
    found = {
        "mean per-class accuracy": _per_class(hits, numbers[test]),
        "accuracy": 100 * float(hits.mean()),
    }
    if uncounted is not None:
        counted = y[test] != uncounted
        found[f"mean per-class accuracy, {uncounted} not counted"] = _per_class(
            hits[counted], numbers[test][counted]
        )
        found[f"accuracy, {uncounted} not counted"] = 100 * float(hits[counted].mean())
    if most_tested is not None:
        few = _at_most(numbers[test], most_tested)
        limited = _per_class(hits[few], numbers[test][few])
        found[f"mean per-class accuracy, at most {most_tested} tested"] = limited
    return found


def evaluate_numbers(
    parts: list[Features],
    y: NDArray[Any],
    groups: NDArray[Any],
    split: Split,
    method: Method,
    seed: int,
) -> dict[str, list[Any]]:
    """The mean absolute error of each tested person, all other people being known.

    Kernels of several parts are added. C, the layer and the kernels' widths come from the training
    part of the split, which holds none of the people tested.
    """
    train, test = split
    if method.neurons:
        ages = np.unique(y // AGE_BIN, return_inverse=True)[1]
        parts = [activations(parts[0], ages, split, method, seed)]
    kernel = np.sum([_kernel(standardised(x, x[train]), train, method.kernel) for x in parts], axis=0)
    errors = np.zeros(len(AGE_C_GRID))
    folds = GroupKFold(3, shuffle=True, random_state=seed).split(train, groups=groups[train])
    for a, b in folds:
        for i, C in enumerate(AGE_C_GRID):
            errors[i] += np.abs(_ages(kernel, y, train[a], train[b], C) - y[train[b]]).sum()
    C = AGE_C_GRID[int(errors.argmin())]
    each: list[float] = []
    counts: list[int] = []
    for person in np.unique(groups[test]):
        own, others = np.flatnonzero(groups == person), np.flatnonzero(groups != person)
        each.append(float(np.abs(_ages(kernel, y, others, own, C) - y[own]).mean()))
        counts.append(len(own))
    return {"error of each person": each, "images of each person": counts}


def _kernel(x: Features, train: NDArray[np.intp], kind: str) -> NDArray[Any]:
    """Inner products, or exp(-distance^2 / its median)."""
    products = x @ x.T
    if kind == "linear":
        return np.asarray(products)
    squares = np.diagonal(products)
    distances = np.maximum(squares[:, None] + squares - 2 * products, 0)
    return np.asarray(np.exp(-distances / np.median(distances[np.ix_(train, train)])))


def activations(
    x: Features, numbers: NDArray[np.intp], split: Split, method: Method, seed: int
) -> Features:
    """Of the neuron-selectivity layer learned from the training samples."""
    train, _ = split
    inputs = centred(x, x[train].mean(axis=0))
    settings: Mapping[str, Any] = method.selectivity
    layer = NeuronSelectivity(method.neurons, random_state=seed, **settings)
    return np.asarray(layer.fit(inputs[train], numbers[train]).transform(inputs))


def standardised(x: Features, of: Features) -> Features:
    """Centred, the mean squared length 1."""
    centre = of.mean(axis=0)
    spread = np.sqrt(np.square(of - centre).sum(axis=1).mean())
    return np.asarray((x - centre) / max(float(spread), 1e-12), dtype=np.float32)


def _class_folds(
    train: NDArray[np.intp], y: NDArray[np.intp], groups: NDArray[Any] | None, seed: int
) -> list[Split]:
    if groups is None:
        parts = StratifiedKFold(3, shuffle=True, random_state=seed).split(train, y[train])
    else:
        folds = StratifiedGroupKFold(3, shuffle=True, random_state=seed)
        parts = folds.split(train, y[train], groups[train])
    return [(train[a], train[b]) for a, b in parts]


def _answers(
    x: Features, y: NDArray[np.intp], train: NDArray[np.intp], test: NDArray[np.intp], C: float
) -> NDArray[np.intp]:
    weights, intercept = fit_linear_svm(x[train], y[train], C)
    return np.asarray(margins_to_scores(x[test] @ weights + intercept).argmax(axis=1))


def _ages(
    kernel: NDArray[Any], y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp], C: float
) -> NDArray[np.float64]:
    """Support vector regression of ages on a root scale: a year changes a child's face the most.

    That scale was better than the years themselves (5.8 against 6.1) by cross-validation on the first
    group's training part.
    """
    model = SVR(kernel="precomputed", C=C, epsilon=0.3)
    model.fit(kernel[np.ix_(train, train)], 6 * np.sqrt(y[train] + 2))
    found = model.predict(kernel[np.ix_(test, train)])
    return np.asarray(np.square(np.maximum(found, 0) / 6) - 2)


def _at_most(y: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """The first n samples of each class."""
    return np.concatenate([np.flatnonzero(y == label)[:n] for label in np.unique(y)])


def _per_class(hits: NDArray[np.bool_], y: NDArray[np.intp]) -> float:
    return 100 * float(np.mean([hits[y == label].mean() for label in np.unique(y)]))
