"""An explanation as one PNG file, drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from midfea import plot
from midfea.evidence.explanation import Explanation
from midfea.explain import content
from midfea.explain.content import Example
from midfea.extras import require
from midfea.files import replacing
from midfea.view.colours import AGAINST, FOR, stage_drawings
from midfea.view.style import COLOURS, looks, new_figure, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

COLUMNS = 8  # images in a row
MAX_CLASSES = 6
HEAD_INCHES, ROW_INCHES = 3.6, 1.75


class Row(NamedTuple):
    """A row of images; `frame`: a colour that says at a glance what they are for."""

    heading: str
    images: Sequence[Example]
    frame: tuple[int, ...] | None = None


def write_drawing(
    path: str | os.PathLike[str],
    explanation: Explanation,
    title: str = "",
    examples: Sequence[Example] = (),
) -> None:
    """Draw the explanation into a PNG file. Needs matplotlib (extra `plot`)."""
    require("plot", "a drawing")
    rows = _rows(explanation, examples)
    heights = [HEAD_INCHES, *([ROW_INCHES] * len(rows))]
    with looks():
        figure = new_figure(10, sum(heights) + 0.5)
        figure.suptitle(
            title or content.headline(explanation), fontsize=12, fontweight="bold", x=0.01, ha="left"
        )
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, hspace=0.02)
        _head(parts[0], explanation)
        for part, row in zip(parts[1:], rows, strict=True):
            part.suptitle(row.heading, fontsize=10, x=0.01, ha="left")
            _images(part.subplots(1, COLUMNS, squeeze=False)[0], row)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})


def _rows(explanation: Explanation, examples: Sequence[Example]) -> list[Row]:
    stages = [Example(pixels, caption) for caption, pixels in stage_drawings(explanation.maps)]
    rows = [Row("What the stages see", stages)]
    sides = (("for", explanation.words_for, FOR), ("against", explanation.words_against, AGAINST))
    for side, words, colour in sides:
        heading = f"Words {side} {explanation.label}, each where it weighed most"
        rows.append(Row(heading, [content.word_image(explanation, word) for word in words], colour))
    return [*rows, Row("The most similar training images", examples)] if examples else rows


def _images(cells: Sequence[Axes], row: Row) -> None:
    for ax in cells:
        ax.set_axis_off()
    for ax, (pixels, caption) in zip(cells, row.images, strict=False):
        show(ax, pixels, caption)
        if row.frame is not None:
            ax.set_axis_on()
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set(visible=True, color=np.array(row.frame) / 255, linewidth=2)


def _head(part: SubFigure, explanation: Explanation) -> None:
    """The image, the evidence, the probabilities and, if there are any, the neurons."""
    neurons = content.active_neurons(explanation)
    widths = [1, 1, 0.9] + [0.9] * bool(neurons)
    axes = part.subplots(1, len(widths), width_ratios=widths)
    show(axes[0], explanation.image, "The image as the model sees it")
    plot.evidence(explanation, axes[1])
    _bars(axes[2], content.probabilities(explanation, MAX_CLASSES), COLOURS[0], "Probability")
    if neurons:
        rows = [(f"{n.number}: {n.serves}", n.activation) for n in neurons]
        _bars(axes[3], rows, COLOURS[2], "Neurons (class they serve)")
    part.supxlabel(content.sum_of_parts(explanation), fontsize=9, x=0.01, ha="left")


def _bars(ax: Axes, rows: Sequence[tuple[str, float]], colour: str, title: str) -> None:
    names, values = zip(*rows[::-1], strict=True)
    ax.barh(names, values, color=colour)
    ax.set_xlim(0, 1)
    ax.set_title(title)
