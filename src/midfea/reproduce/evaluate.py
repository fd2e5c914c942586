"""Learn from the training samples, predict the test samples, count.

Everything open is chosen on the training samples by cross-validation in three folds, which keep each
person together where the protocol says so: C of the SVM and of the regression, and the settings of the
neuron-selectivity layer, which is learned anew for each fold (`midfea.estimators.ns_choice`, as in
`MidFeaClassifier(selectivity=300)`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from midfea.baselines.linear_svm import N_FOLDS, fit_svm, scaling, standardised
from midfea.baselines.registry import fit_images
from midfea.engines import EngineSettings
from midfea.estimators.neuron_selectivity import fit_ns_layer
from midfea.estimators.ns_choice import CANDIDATES, choose_layer
from midfea.learning.folds import make_folds
from midfea.learning.folds import split as split_at
from midfea.learning.head import C_CANDIDATES, Features, LearnLayer, fit_linear_head, validate_C
from midfea.reproduce.protocols import Indices, Method, Split
from midfea.reproduce.subclasses import subclass_layer
from midfea.reproduce.systems import Compared

AGE_C_GRID = (3.0, 10.0, 30.0)  # of the regression
YEARS_PER_CLASS = 10  # of the layer's neurons
# How rows call the times of a compared system: of its training, and of a test image, all in one call.
SECONDS, MILLISECONDS = "seconds_to_train", "ms_per_image"


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
    """Accuracy on the test samples in percent: the mean over the classes, and overall."""
    numbers, test = np.unique(y, return_inverse=True)[1], split[1]
    correct = predictions(x, numbers, groups, split, method, seed) == numbers[test]
    return accuracies(correct, y[test], most_tested, uncounted)


def evaluate_system(
    images: Sequence[Any],
    y: NDArray[Any],
    groups: NDArray[Any] | None,
    split: Split,
    system: Compared,
    seed: int,
    most_tested: int | None = None,
    uncounted: str | None = None,
) -> dict[str, float]:
    """The same of a compared system, and its times."""
    train, test = split
    if system.max_tested is not None:
        test = test[_first_of_each(y[test], system.max_tested)]
    model = system.make(seed)
    inner = None if groups is None else groups[train]
    started = time.perf_counter()
    fit_images(model, [images[i] for i in train], y[train], inner)
    trained = time.perf_counter()
    predicted = model.predict([images[i] for i in test])
    metrics = accuracies(predicted == y[test], y[test], most_tested, uncounted)
    if system.max_tested is not None:  # then classes have other shares than among all test images
        metrics = {name: value for name, value in metrics.items() if name.startswith("mean")}
    return {
        **metrics,
        SECONDS: trained - started,
        MILLISECONDS: 1e3 * (time.perf_counter() - trained) / len(test),
    }


def accuracies(
    correct: NDArray[np.bool_],
    labels: NDArray[Any],
    most_tested: int | None = None,
    uncounted: str | None = None,
) -> dict[str, float]:
    """Of test samples in percent: the mean over the classes, overall, and the variants asked for."""
    metrics = {
        "mean per-class accuracy": per_class(correct, labels),
        "accuracy": 100 * float(correct.mean()),
    }
    if uncounted is not None:
        counted = labels != uncounted
        name = f"{uncounted} not counted"
        metrics[f"mean per-class accuracy, {name}"] = per_class(correct[counted], labels[counted])
        metrics[f"accuracy, {name}"] = 100 * float(correct[counted].mean())
    if most_tested is not None:
        few = _first_of_each(labels, most_tested)
        name = f"mean per-class accuracy, at most {most_tested} tested"
        metrics[name] = per_class(correct[few], labels[few])
    return metrics


def _first_of_each(labels: NDArray[Any], n: int) -> Indices:
    """Indices of the first n samples of each class."""
    return np.concatenate([np.flatnonzero(labels == label)[:n] for label in np.unique(labels)])


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
        decades = np.unique(y[train] // YEARS_PER_CLASS, return_inverse=True)[1]
        learn, _ = choose(parts[0][train], decades, groups[train], method, seed)
        parts = [learn(parts[0][train], decades)(parts[0])]
    kernel = np.sum([_kernel(x, train, method.kernel) for x in parts], axis=0)
    losses = np.zeros(len(AGE_C_GRID))
    folds = make_folds(np.zeros(len(train), dtype=np.intp), N_FOLDS, seed, groups[train])
    for known, new in (split_at(folds, fold) for fold in range(N_FOLDS)):
        for i, C in enumerate(AGE_C_GRID):
            ages = _ages(kernel, y, train[known], train[new], C)
            losses[i] += np.abs(ages - y[train[new]]).sum()
    C = AGE_C_GRID[int(losses.argmin())]
    errors: list[float] = []
    counts: list[int] = []
    for person in np.unique(groups[test]):
        own, others = np.flatnonzero(groups == person), np.flatnonzero(groups != person)
        errors.append(float(np.abs(_ages(kernel, y, others, own, C) - y[own]).mean()))
        counts.append(len(own))
    return {"error of each person": errors, "images of each person": counts}


def predictions(
    x: Features,
    y: Indices,
    groups: NDArray[Any] | None,
    split: Split,
    method: Method,
    seed: int,
) -> Indices:
    """Class numbers of the test samples."""
    train, test = split
    inner = None if groups is None else groups[train]
    if not method.neurons:
        if method.one_vs_one:
            return one_vs_one(x[train], y[train], x[test])
        return fit_svm(x[train], y[train], seed, inner).predict(x[test])
    learn, C = choose(x[train], y[train], inner, method, seed)
    h = learn(x[train], y[train])(x)
    if method.one_vs_one:
        return one_vs_one(h[train], y[train], h[test])
    head = fit_linear_head(h[train], y[train], C, 1.0, np.asarray)
    return np.asarray(head.scores(h[test]).argmax(axis=1))


def choose(
    x: Features, y: Indices, groups: NDArray[Any] | None, method: Method, seed: int
) -> tuple[LearnLayer, float]:
    """How to learn the method's layer from training samples, and C of the SVM on its activations."""
    folds = make_folds(y, N_FOLDS, seed, groups)
    if method.subclasses:
        learn_control = partial(subclass_layer, n_per_class=method.neurons[0], seed=seed)
        return learn_control, validate_C(x, y, C_CANDIDATES, folds, learn_control).C
    candidates = (method.selectivity,) if method.selectivity else CANDIDATES
    n_neurons = [n * (int(y.max()) + 1) for n in method.neurons]
    layer, C = choose_layer(n_neurons, x, y, folds, candidates=candidates, random_state=seed)
    return lambda x, y: fit_ns_layer(layer, x, y, EngineSettings(), seed).activations, C


def one_vs_one(x: Features, y: Indices, new: Features) -> Indices:
    """The paper's classifier: LIBSVM's linear SVM, one against one, C = 1."""
    return np.asarray(SVC(kernel="linear", C=1.0).fit(x, y).predict(new))


def per_class(correct: NDArray[np.bool_], y: NDArray[Any]) -> float:
    """The mean over the classes of their recall, in percent."""
    return 100 * float(np.mean([correct[y == label].mean() for label in np.unique(y)]))


def _kernel(x: Features, train: Indices, kind: str) -> NDArray[Any]:
    """Inner products of standardised features, or exp(-distance^2 / its median)."""
    x = standardised(x, *scaling(x[train]))
    products = x @ x.T
    if kind == "linear":
        return np.asarray(products)
    squares = np.diagonal(products)
    distances = np.maximum(squares[:, None] + squares - 2 * products, 0)
    return np.asarray(np.exp(-distances / np.median(distances[np.ix_(train, train)])))


def _ages(
    kernel: NDArray[Any], y: NDArray[Any], train: Indices, test: Indices, C: float
) -> NDArray[np.float64]:
    """Support vector regression of ages on a root scale: a year changes a child's face the most."""
    model = SVR(kernel="precomputed", C=C, epsilon=0.3)
    model.fit(kernel[np.ix_(train, train)], 6 * np.sqrt(y[train] + 2))
    roots = model.predict(kernel[np.ix_(test, train)])
    return np.asarray(np.square(np.maximum(roots, 0) / 6) - 2)
