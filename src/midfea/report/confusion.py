"""Which classes are taken for which: the matrix, the pairs, the classes, the mistakes."""

from __future__ import annotations

import base64
import json

import numpy as np

from midfea.learning.interval import wilson
from midfea.report.answers import Answers
from midfea.view.markup import picture, text

N_MISTAKES = 24
MANY = 14  # classes: from here on column names are turned, and cells are small


def matrix(answers: Answers) -> str:
    """A table whose cells are buttons that open the images behind them."""
    names = [text(name) for name in answers.classes]
    counts = answers.confusion
    totals = np.maximum(counts.sum(axis=1), 1)
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    rows = []
    for i, name in enumerate(names):
        cells = "".join(
            _cell(i, j, int(count), count / totals[i], name, names[j]) if count else "<td></td>"
            for j, count in enumerate(counts[i])
        )
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    many = " many" if len(names) >= MANY else ""
    return (
        "<p>A row for each class of images, a column for each answer; the numbers are images. "
        "Choose a cell to see them.</p>"
        f'<div class="scroll" tabindex="0" role="group" aria-label="Confusion matrix">'
        f'<table class="matrix{many}"><thead><tr><th class="corner"><span>is</span> \\ '
        f"<span>told</span></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="key"><span class="swatch right"></span> told rightly '
        '<span class="swatch wrong"></span> taken for another class; the stronger the colour, the '
        "larger the share of the row</p>"
    )


def _cell(i: int, j: int, count: int, share: float, shown: str, said: str) -> str:
    kind = "right" if i == j else "wrong"
    label = f"{count} of {shown} told rightly" if i == j else f"{count} of {shown} taken for {said}"
    return (
        f'<td><button class="{kind}" style="--share:{share:.2f}" data-cell="{i}-{j}" '
        f'aria-label="{label}" title="{label}">{count}</button></td>'
    )


def pairs(answers: Answers) -> str:
    """The most confused pairs, with bars."""
    found = answers.confused_pairs()
    if not found:
        return "<p>No image was taken for another class.</p>"
    widest = found[0].images
    items = []
    for pair in found:
        shown, said = (text(answers.classes[i]) for i in (pair.shown, pair.said))
        items.append(
            f'<li><button class="plain" data-cell="{pair.shown}-{pair.said}"><b>{shown}</b> taken for '
            f'<b>{said}</b></button><span class="bar" style="--part:{pair.images / widest:.3f}"></span>'
            f'<span class="number">{pair.images} ({pair.share:.0%})</span></li>'
        )
    return f'<ol class="pairs">{"".join(items)}</ol>'


def classes(answers: Answers) -> str:
    """A row for each class."""
    counts = answers.confusion
    rows = []
    for i, name in enumerate(answers.classes):
        total, told, right = int(counts[i].sum()), int(counts[:, i].sum()), int(counts[i, i])
        found = wilson(right, total)
        between = f"{found.low:.0%} to {found.high:.0%}" if total else ""
        rows.append(
            f'<tr><th scope="row">{text(name)}</th><td>{total}</td>'
            f"<td>{_share(right, total)}</td><td>{between}</td><td>{_share(right, told)}</td></tr>"
        )
    return (
        '<div class="scroll"><table class="plain"><thead><tr><th scope="col">class</th>'
        '<th scope="col">images</th><th scope="col">told rightly</th><th scope="col">95 % interval</th>'
        '<th scope="col">right when told</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def mistakes(answers: Answers) -> str:
    """The images told wrongly, the surest first."""
    wrong = answers.surely_wrong()
    if not len(wrong):
        return "<p>None.</p>"
    known = bool(np.isfinite(answers.sureness[wrong]).all())
    order = "the surest first" if known else "in the order of the files"
    figures = []
    for i in wrong[:N_MISTAKES]:
        label, said = text(answers.labels[i]), text(answers.predicted[i])
        chances = answers.probabilities[i]
        lines = [f'<b class="wrong">{said}</b>', f"<span>{label}</span>"]
        if known:
            lines[0] += f" {chances[answers.said[i]]:.0%}"
            lines[1] += f" {chances[answers.shown[i]]:.0%}"
        name = text(answers.names[i])
        image = picture(answers.thumbnails[i], "webp", f"{label}, taken for {said}")
        figures.append(
            f'<figure>{image}<figcaption>told {lines[0]}<br>labelled {lines[1]}<br><span class="file">'
            f"{name}</span></figcaption></figure>"
        )
    return (
        f"<p>{len(wrong)} of {len(answers.labels)} images, {order}. Where a model is sure and wrong, "
        "the label is often the mistake: look at these.</p>"
        f'<div class="gallery">{"".join(figures)}</div>'
    )


def gallery_data(answers: Answers) -> str:
    """The images of every cell, for the page's script: each small copy once."""
    kept = answers.kept()
    cells: dict[str, list[int]] = {}
    images: list[list[str | float | None]] = []
    for i in range(len(answers.labels)):
        if i in kept:
            cells.setdefault(f"{answers.shown[i]}-{answers.said[i]}", []).append(len(images))
            sure = answers.sureness[i]
            images.append(
                [
                    base64.b64encode(answers.thumbnails[i]).decode(),
                    answers.names[i],
                    round(float(sure), 3) if np.isfinite(sure) else None,
                ]
            )
    counts = {
        f"{i}-{j}": int(answers.confusion[i, j])
        for i, j in zip(*answers.confusion.nonzero(), strict=True)
    }
    data = {
        "classes": [str(name) for name in answers.classes],
        "counts": counts,
        "cells": cells,
        "images": images,
    }
    safe = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="data">{safe}</script>'
