"""An explanation as one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence

from midfea import __version__
from midfea.evidence.explanation import Explanation, Word
from midfea.explain.overlay import crop, overlay
from midfea.explain.picture import (
    Example,
    caption_of,
    firing,
    headline,
    stage_pictures,
    sum_of_parts,
)
from midfea.files import replacing
from midfea.view.markup import pixels, text

_STYLE = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --ink: #1b2430; --soft: #5a6675;
  --line: #dde2e8; --for: #d55e00; --against: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --ground: #12161c; --card: #1b2129; --ink: #e8ecf1;
  --soft: #9aa7b5; --line: #303944; --for: #f08a3c; --against: #56a8e0 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif }
header, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1rem 1.2rem; margin-bottom: 1rem }
h1 { margin: 0; font-size: 1.7rem; overflow-wrap: anywhere } h2 { margin: 0 0 .5rem; font-size: 1.15rem }
p { margin: .3rem 0 .8rem; max-width: 46rem } .soft, figcaption { color: var(--soft); font-size: .85rem }
figure { margin: 0; min-width: 0 } img { display: block; width: 100%; image-rendering: pixelated;
  border-radius: 4px }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: 1rem }
.many { display: grid; grid-template-columns: repeat(auto-fill, minmax(6.2rem, 1fr)); gap: .7rem }
.for img { border: 3px solid var(--for) } .against img { border: 3px solid var(--against) }
.legend { height: .7rem; border-radius: 99px; margin-top: .5rem;
  background: linear-gradient(90deg, #0072b2, #8884 50%, #d55e00) }
.ends { display: flex; justify-content: space-between }
table { border-collapse: collapse; width: 100%; max-width: 34rem }
td { padding: .2rem .5rem .2rem 0; overflow-wrap: anywhere } td:last-child { text-align: right }
td.bar { width: 45% }
.bar i { display: block; height: .7rem; border-radius: 3px; background: var(--against) }
@media print { body { background: none } section { break-inside: avoid } }
"""


def write_page(
    path: str | os.PathLike[str],
    found: Explanation,
    title: str = "",
    examples: Sequence[Example] = (),
) -> None:
    """Write the explanation as one HTML file."""
    name = text(title or headline(found))
    order = (-found.probabilities).argsort(kind="stable")[:8]
    probabilities = [(str(found.classes[i]), float(found.probabilities[i])) for i in order]
    sections = [
        f"<header><h1>{name}</h1><p class=soft>midfea {__version__}</p>"
        f"{_bars([(n, p, f'{p:.1%}') for n, p in probabilities])}</header>",
        _section(f"Where the evidence for {found.label} lies", _where(found)),
        _section(f"Words that spoke for {found.label}", _words(found, found.words_for, "for")),
        _section("Words that spoke against it", _words(found, found.words_against, "against")),
    ]
    if found.neurons is not None:
        note = (
            "<p class=soft>The most active ones, with the class that each serves, its activation (0 to "
            "1) and what it adds to the decision value beyond what it adds for a usual image.</p>"
        )
        rows = [(n, a, f"{a:.2f}, {c:+.3f}") for n, a, c in firing(found)]
        sections.append(_section("Neurons that fired", note + _bars(rows)))
    stages = "".join(_figure(pixels(p, caption), caption) for caption, p in stage_pictures(found))
    sections.append(_section("What the stages see", f"<div class=many>{stages}</div>"))
    if examples:
        alike = "".join(_figure(pixels(e.image, e.caption), e.caption) for e in examples)
        sections.append(_section("The training images most like it", f"<div class=many>{alike}</div>"))
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{name}</title><style>{_STYLE}</style>{''.join(sections)}</html>"
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{text(heading)}</h2>{body}</section>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{text(caption)}</figcaption></figure>"


def _where(found: Explanation) -> str:
    legend = (
        "<div class=legend></div><div class='ends soft'><span>against</span><span>none</span>"
        "<span>for</span></div>"
    )
    coloured = pixels(overlay(found.image, found.evidence), "evidence over the image")
    return (
        f"<div class=two>{_figure(pixels(found.image, 'the image'), 'the image as the model sees it')}"
        f"<figure>{coloured}{legend}</figure></div><p class=soft>{text(sum_of_parts(found))}</p>"
    )


def _words(found: Explanation, words: Sequence[Word], css: str) -> str:
    if not words:
        return "<p class=soft>None.</p>"
    shown = [
        _figure(pixels(crop(found.image, w.boxes[0]), f"word {w.word}"), caption_of(w)) for w in words
    ]
    note = "Each at the place where it weighed most, with what it adds to the decision value."
    return f"<p class=soft>{note}</p><div class='many {css}'>{''.join(shown)}</div>"


def _bars(rows: Sequence[tuple[str, float, str]]) -> str:
    cells = (
        f"<tr><td>{text(name)}<td class=bar><i style='width:{100 * share:.0f}%'></i><td>{text(told)}"
        for name, share, told in rows
    )
    return f"<table>{''.join(cells)}</table>"
