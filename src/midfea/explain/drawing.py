"""An explanation as one PNG file, drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midfea import plot
from midfea.evidence.explanation import Explanation, Word
from midfea.explain.content import (
    Example,
    active_neurons,
    headline,
    probabilities,
    sum_of_parts,
    word_caption,
)
from midfea.files import replacing
from midfea.view.colours import AGAINST, FOR, crop, stage_drawings
from midfea.view.style import COLOURS, looks, new_figure, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

COLUMNS = 8  # images in a row
MAX_CLASSES = 6
HEAD_INCHES, ROW_INCHES = 3.6, 1.75


def write_drawing(
    path: str | os.PathLike[str],
    explanation: Explanation,
    title: str = "",
    examples: Sequence[Example] = (),
) -> None:
    """Draw the explanation into a PNG file. Needs matplotlib: pip install "midfea[plot]"."""
    plot.require_matplotlib()
    label = explanation.label
    rows: list[tuple[str, Callable[[Sequence[Axes]], None]]] = [
        ("What the stages see", lambda cells: _images(cells, stage_drawings(explanation.maps))),
        (
            f"Words for {label}, each where it weighed most",
            lambda cells: _words(cells, explanation.image, explanation.words_for, FOR),
        ),
        (
            f"Words against {label}, each where it weighed most",
            lambda cells: _words(cells, explanation.image, explanation.words_against, AGAINST),
        ),
    ]
    if examples:
        similar = [(example.caption, example.image) for example in examples]
        rows.append(("The most similar training images", lambda cells: _images(cells, similar)))
    heights = [HEAD_INCHES, *([ROW_INCHES] * len(rows))]
    with looks():
        figure = new_figure(10, sum(heights) + 0.5)
        figure.suptitle(
            title or headline(explanation), fontsize=12, fontweight="bold", x=0.01, ha="left"
        )
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, hspace=0.02)
        _head(parts[0], explanation)
        for part, (heading, draw) in zip(parts[1:], rows, strict=True):
            part.suptitle(heading, fontsize=10, x=0.01, ha="left")
            cells = part.subplots(1, COLUMNS, squeeze=False)[0]
            for ax in cells:
                ax.set_axis_off()
            draw(cells)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})


def _images(cells: Sequence[Axes], images: Iterable[tuple[str, NDArray[Any]]]) -> None:
    for ax, (caption, pixels) in zip(cells, images, strict=False):
        show(ax, pixels, caption)


def _words(
    cells: Sequence[Axes], image: NDArray[Any], words: Sequence[Word], colour: tuple[int, ...]
) -> None:
    """Words where they weighed most, in frames that say at a glance whether they are for or against."""
    for ax, word in zip(cells, words, strict=False):
        show(ax, crop(image, word.boxes[0]), word_caption(word))
        ax.set_axis_on()
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set(visible=True, color=np.array(colour) / 255, linewidth=2)


def _head(part: SubFigure, explanation: Explanation) -> None:
    """The image, the evidence, the probabilities and, if there are any, the neurons."""
    neurons = active_neurons(explanation)
    widths = [1, 1, 0.9] + [0.9] * bool(neurons)
    axes = part.subplots(1, len(widths), width_ratios=widths)
    show(axes[0], explanation.image, "The image as the model sees it")
    plot.evidence(explanation, axes[1])
    _bars(axes[2], probabilities(explanation, MAX_CLASSES), COLOURS[0], "Probability")
    if neurons:
        rows = [(f"{n.number}: {n.serves}", n.activation) for n in neurons]
        _bars(axes[3], rows, COLOURS[2], "Neurons (class they serve)")
    part.supxlabel(sum_of_parts(explanation), fontsize=9, x=0.01, ha="left")


def _bars(ax: Axes, rows: Sequence[tuple[str, float]], colour: str, title: str) -> None:
    names, values = zip(*rows[::-1], strict=True)
    ax.barh(names, values, color=colour)
    ax.set_xlim(0, 1)
    ax.set_title(title)
