"""An explanation as one PNG, drawn by matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea import plot
from midfea.evidence.explanation import Explanation, Word
from midfea.explain.overlay import AGAINST, FOR, crop
from midfea.files import replacing
from midfea.view.markup import in_colour

N_SHOWN = 8  # words in a row, neurons


class Example(NamedTuple):
    """A training image to show beside the explanation."""

    image: NDArray[Any]
    caption: str


def write_picture(
    path: str | os.PathLike[str],
    found: Explanation,
    title: str = "",
    examples: Sequence[Example] = (),
) -> None:
    """Draw the explanation into a PNG file. Needs matplotlib: pip install "midfea[plot]"."""
    plot.require_matplotlib()
    from midfea.view.style import looks, new_figure, show

    rows = ["maps", "for", "against"] + ["nearest"] * bool(examples)
    heights = [3.6, *([1.75] * len(rows))]
    with looks():
        figure = new_figure(10, sum(heights) + 0.5)
        figure.suptitle(title or headline(found), fontsize=12, fontweight="bold", x=0.01, ha="left")
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, hspace=0.02)
        _head(parts[0], found)
        for part, row in zip(parts[1:], rows, strict=True):
            cells = part.subplots(1, N_SHOWN, squeeze=False)[0]
            for ax in cells:
                ax.set_axis_off()
            if row == "maps":
                _heading(part, "What the stages see")
                for ax, (caption, pixels) in zip(cells, stage_pictures(found), strict=False):
                    show(ax, pixels, caption)
            elif row == "nearest":
                _heading(part, "The training images most like it")
                for ax, example in zip(cells, examples, strict=False):
                    show(ax, example.image, example.caption)
            else:
                words = found.words_for if row == "for" else found.words_against
                _heading(part, f"Words that spoke {row} {found.label}, each where it weighed most")
                for ax, word in zip(cells, words, strict=False):
                    show(ax, crop(found.image, word.boxes[0]), caption_of(word))
                    _frame(ax, FOR if row == "for" else AGAINST)
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=130, metadata={"Software": None})


def headline(found: Explanation) -> str:
    """The answer in a line."""
    best = float(found.probabilities.max())
    return f"{found.answer} ({best:.0%})"


def sum_of_parts(found: Explanation) -> str:
    """How the decision value comes about."""
    parts = [f"evidence {found.evidence.sum():+.3f}", f"intercept {found.intercept:+.3f}"]
    if found.baseline:
        parts.append(f"baseline {found.baseline:+.3f}")
    if found.network_share:
        parts.append(f"network {found.network_share:+.3f} (not on the map)")
    return f"Decision value for {found.label}: {found.decision:.3f} = {', '.join(parts)}"


def caption_of(word: Word) -> str:
    return f"{word.contribution:+.3f}"


def stage_pictures(found: Explanation) -> list[tuple[str, NDArray[Any]]]:
    """Some of the stages' outputs, each as one picture; a hue stands for a filter or a word."""
    maps = found.maps
    responses, convolved, words = (maps[n] for n in ("convolution", "soft_convolution", "words"))
    seen = np.linalg.norm(maps["descriptors"], axis=-1)  # zero in flat places
    return [
        ("filter responses", np.linalg.norm(responses, axis=-1)),
        (
            "strongest filter",
            in_colour(convolved.argmax(axis=-1), convolved.max(axis=-1), responses.shape[-1]),
        ),
        ("3D max pooling", maps["max_pool_3d"].max(axis=-1)),
        ("nearest words", in_colour(words, seen, int(words.max()) + 1)),
    ]


def firing(found: Explanation) -> list[tuple[str, float, float]]:
    """The neurons with the strongest activations: name, activation, contribution."""
    if found.neurons is None:
        return []
    order = np.argsort(-found.neurons.activations, kind="stable")[:N_SHOWN]
    return [
        (
            f"{n + 1}: {found.classes[found.neurons.serves[n]]}",
            float(found.neurons.activations[n]),
            float(found.neurons.contributions[n]),
        )
        for n in order
    ]


def _head(part: Any, found: Explanation) -> None:
    """The image, the evidence, the probabilities and, if there are any, the neurons."""
    from midfea.view.style import COLOURS, show

    neurons = firing(found)
    widths = [1, 1, 0.9] + [0.9] * bool(neurons)
    axes = part.subplots(1, len(widths), width_ratios=widths)
    show(axes[0], found.image, "The image as the model sees it")
    plot.evidence(found, axes[1])
    order = np.argsort(-found.probabilities, kind="stable")[:6][::-1]
    names = [str(found.classes[i]) for i in order]
    axes[2].barh(names, found.probabilities[order], color=COLOURS[0])
    axes[2].set_xlim(0, 1)
    axes[2].set_title("Probability")
    if neurons:
        served, activations, _ = zip(*neurons[::-1], strict=True)
        axes[3].barh(served, activations, color=COLOURS[2])
        axes[3].set_xlim(0, 1)
        axes[3].set_title("Neurons (class they serve)")
    part.supxlabel(sum_of_parts(found), fontsize=9, x=0.01, ha="left")


def _heading(part: Any, words: str) -> None:
    part.suptitle(words, fontsize=10, x=0.01, ha="left")


def _frame(ax: Any, colour: tuple[int, int, int]) -> None:
    """A coloured frame, so that for and against are told apart at a glance."""
    ax.set_axis_on()
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set(color=np.array(colour) / 255, linewidth=2)
