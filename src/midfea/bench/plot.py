"""The picture of `growth`: measured times and the fitted power, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from midfea.files import check_writable, replacing
from midfea.provenance import Row


def check_plot(path: Path) -> None:
    """ValueError or OSError, before any long work, if the picture could not be made."""
    if find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib: pip install 'midfea[plot]'")
    check_writable(path)


def plot_growth(rows: Sequence[Row], path: Path) -> None:
    """A panel for each thing that grows, into a PNG file."""
    from matplotlib.ticker import LogLocator

    from midfea.view.style import COLOURS, looks, new_figure

    exponents = {row["growth"]: row["exponent"] for row in rows if "exponent" in row}
    with looks():
        figure = new_figure(3.2 * len(exponents), 3.0)
        panels = figure.subplots(1, len(exponents), squeeze=False)[0]
        for axes, (what, power) in zip(panels, exponents.items(), strict=True):
            points = [row for row in rows if row.get("growth") == what and "value" in row]
            x = np.array([row["value"] for row in points], dtype=float)
            y = np.array([row["ms_per_image"] for row in points])
            if what == "images":
                y = y * x / 1e3
            line = np.exp(np.mean(np.log(y) - power * np.log(x))) * x**power
            axes.loglog(x, line, color=COLOURS[-1], linestyle="--")
            axes.loglog(x, y, color=COLOURS[0], marker="o", linestyle="none")
            axes.set_ylim(y.min() / 2, y.max() * 2)  # a tick or two, however little grows
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.set_xticks(x, [f"{value:,.0f}" for value in x], rotation=30)
            axes.minorticks_off()
            axes.set_xlabel(what)
            axes.set_ylabel("seconds for all" if what == "images" else "milliseconds per image")
            axes.set_title(f"time grows as {what}^{power:.2f}")
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
