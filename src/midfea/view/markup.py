"""Pieces of HTML: escaped text, images inside the page, the frame of a page."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from midfea.pictures.mosaic import data_uri

STATIC = Path(__file__).parent / "static"  # also sent by `midfea serve`


def text(value: object) -> str:
    """Safe between tags and inside quoted attributes."""
    return html.escape(str(value))


class Part(NamedTuple):
    """A part of a page: a name to link to, a heading, HTML. Two halves may stand side by side."""

    name: str
    title: str
    body: str
    half: bool = False

    def markup(self) -> str:
        """The part as a section of the page."""
        css = "card half" if self.half else "card"
        return (
            f'<section id="{self.name}" class="{css}"><h2>{text(self.title)}</h2>{self.body}</section>'
        )


def page(title: str, body: str, style: Path) -> str:
    """A whole page that needs no other file: the shared stylesheet, and `style` for what is special."""
    css = static("base.css") + style.read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{css}</style></head><body>{body}</body></html>\n"
    )


def static(name: str) -> str:
    """A stylesheet or script of the kit."""
    return (STATIC / name).read_text(encoding="utf-8")


def image(source: str, alt: str) -> str:
    """An image; `source` may be a `data_uri`."""
    return f'<img alt="{text(alt)}" src="{source}">'


def figure(pixels: NDArray[Any], caption: str) -> str:
    """An array as an image, with words below it."""
    drawn = image(data_uri(pixels), caption)
    return f"<figure>{drawn}<figcaption>{text(caption)}</figcaption></figure>"


def scrollable(label: str, table: str) -> str:
    """Something wide that is scrolled by itself, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{text(label)}">{table}</div>'


def facts(rows: Iterable[tuple[str, str]], css: str) -> str:
    """Names and values, as a list."""
    items = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in rows)
    return f'<dl class="{css}">{items}</dl>'


def bar(share: float) -> str:
    """A bar as long as a share of its place. Without a style attribute, which `midfea serve` forbids."""
    return f'<svg class="bar" aria-hidden="true"><rect width="{100 * share:.1f}%" height="100%"/></svg>'


def shade(share: float) -> str:
    """The class of base.css for a colour as strong as a share."""
    return f"share-{round(10 * min(max(share, 0.0), 1.0))}"
