"""Curves of accuracy: the drawings of Fig. 3 and Fig. 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from midfea.view.style import COLOURS, new_figure

Rows = Sequence[Mapping[str, Any]]
LETTERS = {"alpha": "α", "beta": "β", "gamma": "γ", "lam": "λ"}
MARKERS = ("o", "s", "^", "D")


def draw_self_taught(rows: Rows) -> Figure:
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
    axes.set_xlabel("unlabelled faces (0: a random dictionary)")
    axes.set_ylabel("accuracy on AR faces (%)")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_parameters(rows: Rows) -> Figure:
    """(a) faces against the four factors, twice; (b) gender against the number of neurons."""
    figure = new_figure(13, 3.8)
    whole, close, right = figure.subplots(1, 3)
    levels = {row["task"]: row["accuracy"] for row in rows if row["parameter"] is None}
    for axes in (whole, close):
        _draw_factors(axes, [row for row in rows if row["parameter"] in LETTERS])
    whole.set_ylim(0, 101)
    whole.set_title("(a) face recognition")
    close.set_ylim(levels["ar-face"] - 4, min(levels["ar-face"] + 2, 100))
    close.set_title("(a) face recognition, close up")
    points = [row for row in rows if row["parameter"] == "n_neurons"]
    x, y = [row["value"] for row in points], [row["accuracy"] for row in points]
    right.plot(x, y, color=COLOURS[0], marker="o", label="with the NS layer")
    right.set_xscale("log")
    right.set_xticks(x)
    right.minorticks_off()
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.set_xlabel("number of neurons")
    right.set_ylabel("accuracy on AR gender (%)")
    right.set_ylim(min(*y, levels["ar-gender"]) - 3, 100)
    right.set_title("(b) gender classification")
    for axes, task in ((whole, "ar-face"), (close, "ar-face"), (right, "ar-gender")):
        axes.axhline(levels[task], color=COLOURS[-1], linestyle="--", label="without the layer")
    for axes in (whole, right):
        axes.legend(frameon=False, loc="lower left")
    return figure


def _draw_factors(axes: Axes, rows: Rows) -> None:
    """Powers of ten at even steps, as on a log axis, with zero beside them."""
    factors = sorted({row["times default"] for row in rows})
    for (name, letter), colour, marker in zip(LETTERS.items(), COLOURS, MARKERS, strict=False):
        points = [row for row in rows if row["parameter"] == name]
        x = [factors.index(row["times default"]) for row in points]
        label = letter + "".join(f" (1 = {p['value']:g})" for p in points if p["times default"] == 1)
        axes.plot(x, [p["accuracy"] for p in points], color=colour, marker=marker, label=label)
    axes.set_xticks(range(len(factors)), [f"{factor:g}" for factor in factors])
    axes.set_xlabel("times its default, the others at theirs")
    axes.set_ylabel("accuracy on AR faces (%)")
