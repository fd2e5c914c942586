"""What pareto.py prints and draws of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from midfea.view.style import COLOURS, looks, new_figure

Rows = list[dict[str, Any]]
ACCURACY = "mean per-class accuracy"
TIMES = {
    "seconds to train": "seconds to train, two cores",
    "ms per image": "milliseconds for an image, two cores",
}


def is_ours(method: str) -> bool:
    return method.split(",")[0] in ("paper", "fast", "best")


def draw_times(rows: Rows, path: Path, title: str) -> None:
    """Accuracy against the time to train, and to predict."""
    with looks():
        figure = new_figure(11, 4.5)
        panels = figure.subplots(1, 2, sharey=True)
        for ax, (key, label) in zip(panels, TIMES.items(), strict=True):
            for name in dict.fromkeys(row["method"] for row in rows):
                own = [row for row in rows if row["method"] == name]
                x, y = (np.mean([row[k] for row in own]) for k in (key, ACCURACY))
                colour = COLOURS[0] if is_ours(name) else COLOURS[1]
                ax.plot(x, y, "o" if is_ours(name) else "s", color=colour)
                side = {"xytext": (-7, -3), "ha": "right"} if is_ours(name) else {"xytext": (7, -3)}
                ax.annotate(name, (x, y), textcoords="offset points", color=colour, **side)
            ax.set_xscale("log")
            ax.set_xlabel(label)
            ax.grid(alpha=0.3)
            ax.margins(x=0.25)
        panels[0].set_ylabel("accuracy, mean of the classes (%)")
        figure.suptitle(title)
        figure.savefig(path, dpi=130)


def draw_curves(rows: Rows, path: Path, title: str) -> None:
    """Accuracy against the number of training images."""
    with looks():
        figure = new_figure(7, 4.5)
        ax = figure.subplots()
        for name in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if row["method"] == name]
            sizes = sorted({row["per class"] for row in own})
            if len(sizes) < 3:  # not a curve
                continue
            means = [np.mean([row[ACCURACY] for row in own if row["per class"] == n]) for n in sizes]
            ax.plot(sizes, means, "o-" if is_ours(name) else "s--", label=name)
        ax.set_xlabel("training images of each class")
        ax.set_ylabel("accuracy, mean of the classes (%)")
        ax.grid(alpha=0.3)
        ax.legend()
        ax.set_title(title)
        figure.savefig(path, dpi=130)


def print_means(rows: Rows) -> None:
    """Mean and deviation over the splits; on the same splits, how much better `best` is than each
    method, and what neurons are worth."""
    cases: dict[Any, dict[int, float]] = {}
    for row in rows:
        case = (row["per class"], row["at most"], row["method"])
        cases.setdefault(case, {})[row["split"]] = row[ACCURACY]

    def gain(values: dict[int, float], per: Any, at_most: Any, other: str) -> list[float]:
        theirs = cases.get((per, at_most, other), {})
        return [value - theirs[split] for split, value in values.items() if split in theirs]

    for (n, at_most, name), values in sorted(
        cases.items(), key=lambda case: (case[0][0] or 1000, case[0][2])
    ):
        numbers = list(values.values())
        learned = f"{n} of each class, " if n else ""
        line = f"{learned}{name}: {np.mean(numbers):.2f} ({np.std(numbers):.2f}), {len(numbers)} splits"
        if name != "best" and (less := gain(values, n, at_most, "best")):
            line += f"; best is better by {-np.mean(less):z.2f} ({np.std(less):.2f})"
        if (plain := name.removesuffix(", with neurons")) != name and (
            more := gain(values, n, at_most, plain)
        ):
            line += f"; neurons are worth {np.mean(more):.2f} ({np.std(more):.2f})"
        print(line)
