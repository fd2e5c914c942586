"""Pictures of models and answers, for notebooks and reports: each function draws into a matplotlib axis.

Every function takes `ax`, makes a new one if there is none, and returns it. Needs matplotlib:
pip install "midfea[plot]".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from midfea.explain import Explanation


def _axes(ax: Axes | None) -> Axes:
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def require_matplotlib() -> None:
    """ImportError, saying what to install, if there is none."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "midfea[plot]"') from None


def filters(model: Any, ax: Axes | None = None) -> Axes:
    """The filters of a fitted estimator, side by side; grey is zero."""
    ax = _axes(ax)
    from midfea.view.style import mosaic, show

    limit = float(np.abs(model.filters_).max())
    columns = int(np.ceil(len(model.filters_) ** 0.5))
    picture = mosaic(model.filters_.transpose(1, 2, 0), columns)
    show(ax, picture, f"{len(model.filters_)} filters", vmin=-limit, vmax=limit)
    return ax


def stage_maps(
    maps: dict[str, NDArray[Any]], stage: str = "soft_convolution", ax: Axes | None = None
) -> Axes:
    """The maps of one stage side by side, at most 36 of them; `maps` is what `feature_maps` returns."""
    ax = _axes(ax)
    from midfea.view.style import mosaic, show

    if stage not in maps or maps[stage].ndim < 2:
        drawn = ", ".join(repr(name) for name, array in maps.items() if array.ndim >= 2)
        raise ValueError(f"stage is one of {drawn}, got {stage!r}")
    shown = maps[stage][..., :36] if maps[stage].ndim == 3 else maps[stage][..., None]
    columns = int(np.ceil(shown.shape[-1] ** 0.5))
    show(ax, mosaic(shown, columns), stage.replace("_", " "))
    return ax


def evidence(explanation: Explanation, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Where in the image the evidence lies: orange for the class, blue against it."""
    ax = _axes(ax)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    from midfea.explain.overlay import AGAINST, CURVE, FOR, overlay
    from midfea.view.style import show

    show(ax, overlay(explanation.image, explanation.evidence), f"Evidence for {explanation.label}")
    if legend:
        steps = np.linspace(-1, 1, 255)[:, None]
        cover = 0.9 * np.abs(steps) ** CURVE
        colours = 235 * (1 - cover) + np.where(steps > 0, FOR, AGAINST) * cover
        scale = ScalarMappable(cmap=LinearSegmentedColormap.from_list("evidence", colours / 255))
        scale.set_clim(-1, 1)
        below = ax.inset_axes((0.1, -0.08, 0.8, 0.03))  # inside: the picture keeps its size
        bar = ax.figure.colorbar(scale, cax=below, orientation="horizontal")
        bar.set_ticks([-1, 0, 1], labels=["against", "none", "for"])
        bar.outline.set_visible(False)
    return ax


def confusion(
    labels: Sequence[Any], predicted: Sequence[Any], ax: Axes | None = None, *, classes: Any = None
) -> Axes:
    """How many images of each class (row) were taken for which (column)."""
    ax = _axes(ax)
    shown, said = np.asarray(labels), np.asarray(predicted)
    names = np.unique(np.concatenate([shown, said])) if classes is None else np.asarray(classes)
    counts = np.array([[((shown == a) & (said == b)).sum() for b in names] for a in names])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.25)  # dark text stays readable on the darkest
    if len(names) <= 20:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                ax.text(column, row, str(count), ha="center", va="center", fontsize=8)
    places = range(len(names))
    ax.set_xticks(places, [str(n) for n in names], rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(places, [str(n) for n in names])
    ax.set_xlabel("the model's answer")
    ax.set_ylabel("what the image shows")
    ax.spines[:].set_visible(False)
    return ax


def neurons(model: Any, ax: Axes | None = None) -> Axes:
    """Which neurons respond to which class: a row for each neuron, dark where it responds strongly.

    model : a fitted `NeuronSelectivity`, or a classifier that holds one
    """
    ax = _axes(ax)
    from midfea.estimators.neuron_selectivity import NeuronSelectivity, responses_order

    layer = model if isinstance(model, NeuronSelectivity) else getattr(model, "selectivity_", None)
    if layer is None:
        raise ValueError("the model has no neurons: fit it with selectivity=10, say")
    names = getattr(model, "classes_", None)
    names = layer.classes_ if names is None else names
    sorted_rows = layer.class_responses_[responses_order(layer)]
    drawn = ax.imshow(sorted_rows, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(names)), [str(n) for n in names], rotation=45, ha="right",
                  rotation_mode="anchor")  # fmt: skip
    ax.set_ylabel("neuron")
    ax.set_yticks([])
    ax.figure.colorbar(drawn, ax=ax, label="mean activation", shrink=0.8)
    return ax


def learning_curve(
    sizes: Sequence[int],
    accuracies: Sequence[float],
    deviations: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against the number of training images, with bars of one deviation."""
    ax = _axes(ax)
    from midfea.view.style import COLOURS

    ax.errorbar(sizes, accuracies, yerr=deviations, color=COLOURS[0], marker="o", capsize=3)
    ax.set_xscale("log")
    ax.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel("training images")
    ax.set_ylabel("accuracy")
    return ax
