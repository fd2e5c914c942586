"""The images of a report: those with wrong predictions, and those behind each cell of the matrix."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from midfea.learning.predictions import Predictions
from midfea.view.markup import image, text

MAX_THUMBNAIL_BYTES = 9_000_000  # of all thumbnails of a page; base64 makes 12 MB of them
MAX_MISTAKES = 24


@dataclass(frozen=True)
class Gallery:
    """Images in the order of their predictions.

    images : pixels
    thumbnails : small WebP files of the same images
    names : such as file names
    """

    images: Sequence[Any]
    thumbnails: Sequence[bytes]
    names: Sequence[str]

    def take(self, indices: Iterable[int]) -> Gallery:
        """Those with these numbers, such as the images of a validation."""
        rows = list(indices)
        return Gallery(
            [self.images[i] for i in rows],
            [self.thumbnails[i] for i in rows],
            [self.names[i] for i in rows],
        )


def mistakes(predictions: Predictions, gallery: Gallery) -> str:
    """The images with wrong predictions, the most confident first."""
    wrong = predictions.mistakes()
    if not len(wrong):
        return "<p>None.</p>"
    figures = []
    for i in wrong[:MAX_MISTAKES]:
        label, predicted = predictions.labels[i], predictions.predicted[i]
        of_label, of_predicted = (predictions.probabilities[i, k] for k in (label, predicted))
        names = [text(predictions.classes[k]) for k in (label, predicted)]
        thumbnail = image(_source(gallery.thumbnails[i]), f"{names[0]}, predicted as {names[1]}")
        figures.append(
            f'<figure>{thumbnail}<figcaption>predicted <b class="wrong">{names[1]}</b> '
            f"{of_predicted:.0%}<br>labelled {names[0]} {of_label:.0%}<br>{text(gallery.names[i])}"
            "</figcaption></figure>"
        )
    return (
        f"<p>{len(wrong)} of {len(predictions.labels)} images, the most confident first. Where the "
        "model is confident and wrong, the label is often the mistake: look at these.</p>"
        f'<div class="gallery">{"".join(figures)}</div>'
    )


def script_data(predictions: Predictions, gallery: Gallery) -> str:
    """The images behind every cell of the confusion matrix, for the script: each thumbnail once."""
    chosen = chosen_images(predictions, [len(thumbnail) for thumbnail in gallery.thumbnails])
    cells: dict[str, list[int]] = {}
    for number, i in enumerate(chosen):
        cells.setdefault(f"{predictions.labels[i]}-{predictions.predicted[i]}", []).append(number)
    counts = predictions.confusion
    data = {
        "classes": [str(name) for name in predictions.classes],
        "counts": {f"{i}-{j}": int(counts[i, j]) for i, j in np.argwhere(counts)},
        "cells": cells,
        "images": [
            [
                base64.b64encode(gallery.thumbnails[i]).decode(),
                gallery.names[i],
                round(float(predictions.confidence[i]), 3),
            ]
            for i in chosen
        ],
    }
    safe = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="data">{safe}</script>'


def chosen_images(
    predictions: Predictions, sizes: Sequence[int], max_bytes: int = MAX_THUMBNAIL_BYTES
) -> list[int]:
    """Images whose thumbnails, of these sizes in bytes, fit into a page.

    All if possible, else mistakes before correct ones, and from each cell of the confusion matrix its
    first image, then its second, and so on.
    """
    n_in_cell: dict[tuple[int, int], int] = {}
    ranks = []
    for cell in zip(predictions.labels.tolist(), predictions.predicted.tolist(), strict=True):
        ranks.append(n_in_cell.get(cell, 0))
        n_in_cell[cell] = ranks[-1] + 1
    order = np.lexsort((np.array(ranks), predictions.correct))
    spent = np.cumsum(np.asarray(sizes)[order])
    return sorted(int(i) for i in order[spent <= max_bytes])


def _source(file: bytes) -> str:
    return f"data:image/webp;base64,{base64.b64encode(file).decode()}"
