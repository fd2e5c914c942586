"""Drawings of models and predictions, for notebooks: each function draws into a matplotlib axis.

Every function takes `ax`, makes a new one if there is none, and returns it. Needs matplotlib (extra
`plot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.extras import require
from midfea.learning.predictions import count_pairs
from midfea.view.colours import evidence_colours, overlay
from midfea.view.style import COLOURS, show, show_mosaic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.evidence.explanation import Explanation

MAX_MAPS = 36
MAX_CLASSES_WITH_NUMBERS = 20  # in the cells of a confusion matrix


class HasFilters(Protocol):
    """A fitted estimator of this package."""

    filters_: NDArray[Any]


def _axes(ax: Axes | None) -> Axes:
    require("plot", "a drawing")
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise ValueError(
            f"ax is a matplotlib axis, got {type(ax).__name__}: name what you give, name=..."
        )
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def filters(model: HasFilters, ax: Axes | None = None) -> Axes:
    """The filters of a fitted estimator, side by side; grey is zero."""
    ax = _axes(ax)
    limit = float(np.abs(model.filters_).max())
    show_mosaic(ax, model.filters_, None, f"{len(model.filters_)} filters", low=-limit, high=limit)
    return ax


def stage_maps(
    maps: dict[str, NDArray[Any]], stage: str = "soft_convolution", ax: Axes | None = None
) -> Axes:
    """The maps of one stage side by side, at most 36 of them; `maps` is what `feature_maps` returns."""
    ax = _axes(ax)
    if stage not in maps or maps[stage].ndim < 2:
        drawn = ", ".join(repr(name) for name, array in maps.items() if array.ndim >= 2)
        raise ValueError(f"stage is one of {drawn}, got {stage!r}")
    tiles = np.moveaxis(np.atleast_3d(maps[stage]), -1, 0)[:MAX_MAPS]
    show_mosaic(ax, tiles, None, stage.replace("_", " "))
    return ax


def evidence(explanation: Explanation, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Where in the image the evidence lies: orange for the class, blue against it."""
    ax = _axes(ax)
    show(ax, overlay(explanation.image, explanation.evidence), f"Evidence for {explanation.label}")
    if legend:
        below = ax.inset_axes((0.1, -0.08, 0.8, 0.03))  # inside: the image keeps its size
        scale = evidence_colours(np.linspace(-1, 1, 255)[None, :, None], 235.0) / 255
        below.imshow(scale, aspect="auto", extent=(-1, 1, 0, 1))
        below.set(yticks=[], xticks=[-1, 0, 1], xticklabels=["against", "none", "for"])
        below.spines[:].set_visible(False)
    return ax


def confusion(
    labels: Sequence[Any],
    predicted: Sequence[Any],
    ax: Axes | None = None,
    *,
    classes: ArrayLike | None = None,
) -> Axes:
    """How many images of each class (row) were predicted as which (column); wrong in orange.

    Parameters
    ----------
    labels, predicted : of each image, its class and the predicted one: names, or numbers of `classes`
    ax : where to draw; None makes a new axis
    classes : names of the classes in the order of the rows, such as `model.classes_`; None means those
        that occur, sorted
    """
    ax = _axes(ax)
    from matplotlib.colors import LinearSegmentedColormap

    names, counts = _counted(np.asarray(labels), np.asarray(predicted), classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    signed = np.where(np.eye(len(names)), shares, -shares)
    colours = LinearSegmentedColormap.from_list("confusion", [COLOURS[1], "white", COLOURS[0]])
    ax.imshow(signed, cmap=colours, vmin=-1.6, vmax=1.6)  # dark text stays readable on the darkest
    if len(names) <= MAX_CLASSES_WITH_NUMBERS:
        for row, column in np.argwhere(counts):
            ax.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8)
    _name_columns(ax, names)
    ax.set_yticks(range(len(names)), [str(n) for n in names])
    ax.set_xlabel("predicted class")
    ax.set_ylabel("class")
    ax.spines[:].set_visible(False)
    return ax


def _counted(
    labels: NDArray[Any], predicted: NDArray[Any], classes: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The names of the classes and the confusion matrix; ValueError if labels are none of the names."""
    if labels.ndim != 1 or labels.shape != predicted.shape or not len(labels):
        raise ValueError(
            "labels and predicted are the classes of the same images, one after the other: got shapes "
            f"{labels.shape} and {predicted.shape}"
        )
    given = [*labels.tolist(), *predicted.tolist()]
    if len({isinstance(label, str) for label in given}) > 1:
        raise ValueError(
            f"names and numbers are mixed, {given[0]!r} and {given[-1]!r}: give both alike, such as "
            "model.classes_[numbers]"
        )
    names = np.asarray(sorted(set(given)) if classes is None else classes)
    number_of = {name: number for number, name in enumerate(names.tolist())}
    unknown = sorted(set(given) - set(number_of))
    if unknown and set(given) <= set(range(len(names))):
        number_of = {number: number for number in range(len(names))}
    elif unknown:
        listed = ", ".join(map(repr, number_of))
        raise ValueError(f"the label {unknown[0]!r} is none of the classes {listed}")
    numbers = np.array([number_of[label] for label in given])
    n_images = len(labels)
    return names, count_pairs(numbers[:n_images], numbers[n_images:], len(names))


def neurons(model: NeuronSelectivity | MidFeaClassifier, ax: Axes | None = None) -> Axes:
    """Which neurons respond to which class: a row for each neuron, dark where it responds strongly.

    model : a fitted `NeuronSelectivity`, or a classifier that holds one
    """
    ax = _axes(ax)
    if isinstance(model, NeuronSelectivity):
        responses = model.class_responses_
    elif (layer := getattr(model, "ns_layer_", None)) is not None:
        responses = layer.class_responses
    else:
        raise ValueError("the model has no neurons: fit it with selectivity=10, say")
    order = np.lexsort((-responses.max(axis=1), responses.argmax(axis=1)))  # by the class they serve
    drawn = ax.imshow(responses[order], cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    _name_columns(ax, model.classes_)
    ax.set_ylabel("neuron")
    ax.set_yticks([])
    ax.figure.colorbar(drawn, ax=ax, label="mean activation", shrink=0.8)
    return ax


def _name_columns(ax: Axes, names: NDArray[Any]) -> None:
    places, texts = range(len(names)), [str(n) for n in names]
    ax.set_xticks(places, texts, rotation=45, ha="right", rotation_mode="anchor")


def learning_curve(
    sizes: Sequence[int],
    accuracies: Sequence[float],
    deviations: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against the number of training images, with bars of one standard deviation."""
    ax = _axes(ax)
    ax.errorbar(sizes, accuracies, yerr=deviations, color=COLOURS[0], marker="o", capsize=3)
    ax.set_xscale("log")
    ax.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel("training images")
    ax.set_ylabel("accuracy")
    return ax
