"""The report: one HTML file that needs nothing else, for people who will not read code."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midfea import __version__
from midfea.files import replacing
from midfea.images import fit_within, to_grey

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --blue: 37 99 235; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { margin-bottom: 0 } h2 { margin-top: 2.5rem }
table { border-collapse: collapse } .wide { overflow-x: auto }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th:first-child { text-align: left } dt { opacity: .7 } dd { margin: 0 0 .5rem; font-size: 1.2rem }
figure { display: inline-block; margin: 0 .6rem .6rem 0; vertical-align: top }
figcaption { font-size: .8rem } img { image-rendering: pixelated; display: block }
"""


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    images: Sequence[Any],
    labels: Sequence[Any],
    predicted: Sequence[Any],
    title: str,
    facts: Mapping[str, str],
) -> None:
    """Write what a fitted classifier says of labelled images: facts, confusions, mistakes, maps."""
    shown, said = np.asarray(labels).astype(str), np.asarray(predicted).astype(str)
    names = [str(name) for name in model.classes_]
    sections = [
        _facts(facts),
        "<h2>Which classes are taken for which</h2>",
        _confusion(shown, said, names),
        "<h2>Mistakes</h2>",
        _mistakes(images, shown, said),
        "<h2>What it looks for</h2><p>The filters learned from the images, without their labels.</p>",
        "".join(_figure(_grey_levels(f), "", 56) for f in model.filters_),
        "<h2>What it sees</h2>",
        *(_stages(model, images[i], shown[i]) for i in _one_of_each(shown)[:6]),
    ]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><p>midfea {__version__}</p>{''.join(sections)}</html>"
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _facts(facts: Mapping[str, str]) -> str:
    items = (f"<dt>{html.escape(k)}<dd>{html.escape(v)}" for k, v in facts.items())
    return f"<dl>{''.join(items)}</dl>"


def _confusion(labels: NDArray[Any], predicted: NDArray[Any], names: list[str]) -> str:
    head = "".join(f"<th scope=col>{html.escape(name)}" for name in names)
    rows = []
    for name in names:
        answers = predicted[labels == name]
        cells = []
        for other in names:
            count = int((answers == other).sum())
            shade = 0.6 * count / max(len(answers), 1)
            cells.append(f"<td style='background: rgb(var(--blue) / {shade:.2f})'>{count or ''}")
        rows.append(f"<tr><th scope=row>{html.escape(name)}{''.join(cells)}")
    return (
        "<p>Rows: what the image shows. Columns: what the model says.</p>"
        f"<div class=wide><table><tr><th>{head}{''.join(rows)}</table></div>"
    )


def _mistakes(images: Sequence[Any], labels: NDArray[Any], predicted: NDArray[Any]) -> str:
    wrong = np.flatnonzero(labels != predicted)
    if not len(wrong):
        return "<p>None.</p>"
    shown = [
        _figure(_thumbnail(images[i]), f"{labels[i]}, taken for {predicted[i]}", 112) for i in wrong[:24]
    ]
    return f"<p>{len(wrong)} of {len(labels)}.</p>{''.join(shown)}"


def _stages(model: Any, image: Any, label: str) -> str:
    maps = model.feature_maps(image)
    strongest = maps["soft_convolution"].argmax(axis=-1) / max(len(model.filters_) - 1, 1)
    energy = np.linalg.norm(maps["max_pool_3d"], axis=-1)
    return "".join(
        (
            _figure(_thumbnail(maps["image"]), label, 112),
            _figure(_grey_levels(strongest), "strongest filter", 112),
            _figure(_grey_levels(energy), "pooled maps", 112),
            "<br>",
        )
    )


def _one_of_each(labels: NDArray[Any]) -> list[int]:
    return sorted(int(np.flatnonzero(labels == name)[0]) for name in np.unique(labels))


def _thumbnail(image: Any) -> NDArray[np.uint8]:
    grey: NDArray[Any] = fit_within(to_grey(np.asarray(image)), 150)
    return grey if grey.dtype == np.uint8 else _grey_levels(grey)


def _grey_levels(values: NDArray[Any]) -> NDArray[np.uint8]:
    low, high = float(values.min()), float(values.max())
    return (255 * (values - low) / max(high - low, 1e-12)).astype(np.uint8)


def _figure(pixels: NDArray[np.uint8], caption: str, width: int) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    text = html.escape(caption)
    return (
        f"<figure><img alt='{text or 'filter'}' width={width} src='data:image/png;base64,{data}'>"
        f"<figcaption>{text}</figcaption></figure>"
    )
