"""An explanation as one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from midfea import __version__
from midfea.evidence.explanation import Explanation, Word
from midfea.explain import content
from midfea.explain.content import Example
from midfea.files import replacing
from midfea.view.colours import overlay, stage_drawings
from midfea.view.markup import Part, bar, figure, page, text
from midfea.view.refusal import belonging_words

STYLE = Path(__file__).with_name("explain.css")
MAX_CLASSES = 8
LEGEND = '<p class="legend key"><span>against</span><i></i><span>for</span></p>'
WORDS = "Each at the place where it weighed most, with what it adds to the decision value."
NEURONS = (
    "The most active ones: the class that each serves, its activation (0 to 1), and what it adds to the "
    "decision value beyond what it adds for a usual image."
)


def write_page(
    path: str | os.PathLike[str],
    explanation: Explanation,
    title: str = "",
    examples: Sequence[Example] = (),
) -> None:
    """Write the explanation as one HTML file."""
    name = title or content.headline(explanation)
    rows = [(label, p, f"{p:.1%}") for label, p in content.probabilities(explanation, MAX_CLASSES)]
    parts = "".join(part.markup() for part in _parts(explanation, examples))
    body = (
        f'<header class="card"><p class="over">midfea {__version__}</p><h1>{text(name)}</h1>'
        f'{_bars(rows)}</header><main class="parts">{parts}</main>'
    )
    with replacing(path) as temporary:
        temporary.write_text(page(name, body, STYLE), encoding="utf-8")


def _parts(explanation: Explanation, examples: Sequence[Example]) -> list[Part]:
    label = explanation.label
    words_for = _words(explanation, explanation.words_for, "for")
    words_against = _words(explanation, explanation.words_against, "against")
    parts = [
        Part("evidence", f"Where the evidence for {label} lies", _where(explanation)),
        Part("words-for", f"Words for {label}", words_for, half=True),
        Part("words-against", f"Words against {label}", words_against, half=True),
    ]
    if neurons := content.active_neurons(explanation):
        rows = [
            (f"{n.number}: {n.serves}", n.activation, f"{n.activation:.2f}, {n.contribution:+.3f}")
            for n in neurons
        ]
        body = f'<p class="key">{NEURONS}</p>{_bars(rows)}'
        parts.append(Part("neurons", "Active neurons", body))
    stages = (figure(pixels, caption) for caption, pixels in stage_drawings(explanation.maps))
    parts.append(Part("stages", "What the stages see", _strip(stages, "stages")))
    if examples:
        nearest = (figure(*example) for example in examples)
        parts.append(Part("nearest", "The most similar training images", _strip(nearest, "nearest")))
    return parts


def _where(explanation: Explanation) -> str:
    coloured = figure(overlay(explanation.image, explanation.evidence), "evidence over the image")
    return (
        f'<div class="two">{figure(explanation.image, "the image as the model sees it")}'
        f"<div>{coloured}{LEGEND}</div></div>"
        f'<p class="key">{text(content.sum_of_parts(explanation))}</p>{_belonging(explanation)}'
    )


def _belonging(explanation: Explanation) -> str:
    if explanation.belonging is None:
        return ""
    words = belonging_words(explanation.belonging)
    return f'<p class="key">Belonging {explanation.belonging:.1%}: {text(words)}.</p>'


def _words(explanation: Explanation, words: Sequence[Word], css: str) -> str:
    if not words:
        return '<p class="key">None.</p>'
    figures = (figure(*content.word_image(explanation, word)) for word in words)
    return f'<p class="key">{WORDS}</p>{_strip(figures, f"words {css}")}'


def _strip(figures: Iterable[str], css: str) -> str:
    return f'<div class="strip {css}">{"".join(figures)}</div>'


def _bars(rows: Iterable[tuple[str, float, str]]) -> str:
    """Names with bars, 0 to 1, and values."""
    items = "".join(
        f'<li><span class="name">{text(name)}</span>{bar(share)}'
        f'<span class="number">{text(value)}</span></li>'
        for name, share, value in rows
    )
    return f'<ul class="bars">{items}</ul>'
