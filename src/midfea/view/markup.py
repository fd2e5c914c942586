"""Pieces of HTML: text made safe, pictures inside the page."""

from __future__ import annotations

import base64
import html
import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midfea.pictures.thumbnails import eight_bits

GOLDEN = 0.6180339887  # steps of this size around a circle never come close to each other


def text(value: Any) -> str:
    """Safe between tags and inside quoted attributes."""
    return html.escape(str(value))


class Part(NamedTuple):
    """Of the page: a name to be linked to, a heading, HTML; two halves may stand side by side."""

    name: str
    title: str
    body: str
    half: bool = False

    def markup(self) -> str:
        """The part as a section of the page."""
        css = ' class="half"' if self.half else ""
        return f'<section id="{self.name}"{css}><h2>{text(self.title)}</h2>{self.body}</section>'


def picture(data: bytes, kind: str, alt: str, css: str = "") -> str:
    """An image whose file lies in the page itself."""
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return f'<img class="{css}" alt="{text(alt)}" src="{source}">'


def pixels(array: NDArray[Any], alt: str, css: str = "") -> str:
    """An array as a picture, without loss."""
    file = io.BytesIO()
    Image.fromarray(eight_bits(array)).save(file, "WEBP", lossless=True)
    return picture(file.getvalue(), "webp", alt, css)


def hues(n: int) -> NDArray[np.float64]:
    """n colours as hues in 0 .. 1 that differ well, for things without an order."""
    return np.mod(np.arange(n) * GOLDEN, 1.0)


def in_colour(which: NDArray[np.intp], strength: NDArray[Any], n: int) -> NDArray[np.uint8]:
    """A map whose hue says which of n it is, and whose brightness how much: (height, width, 3)."""
    hue = (255 * hues(n)[which]).astype(np.uint8)
    value = (255 * np.clip(strength / max(float(strength.max()), 1e-12), 0, 1) ** 0.7).astype(np.uint8)
    planes = np.stack([hue, np.full_like(hue, 150), value], axis=-1)
    return np.asarray(Image.fromarray(planes, "HSV").convert("RGB"))
