"""The images of a report: wrong predictions, stage maps, and those behind each cell of the matrix."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.disagreements import find_disagreements
from midfea.learning.interval import Interval
from midfea.learning.predictions import Predictions
from midfea.progress import track
from midfea.view.colours import stage_drawings
from midfea.view.markup import figure, image, text

MAX_THUMBNAIL_BYTES = 9_000_000  # of all thumbnails of a page; base64 makes 12 MB of them
MAX_MISTAKES = 24
MAX_SAMPLES = 6  # images whose stage maps are shown


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


def mistakes(predictions: Predictions, interval: Interval, gallery: Gallery) -> str:
    """The images with wrong predictions: labels to check first, then the most confident."""
    wrong = predictions.mistakes()
    if not len(wrong):
        return "<p>None.</p>"
    suspects, reason = find_disagreements(predictions, interval)
    if reason is None:
        reason = (
            f"{len(suspects)} of them are marked “check the label”: there the model is as sure as where "
            "it is right, and rules out the label. The label or the model may be wrong: look."
        )
    others = wrong[~np.isin(wrong, suspects)]
    figures = [_mistake(predictions, gallery, i, True) for i in suspects[:MAX_MISTAKES]]
    figures += [_mistake(predictions, gallery, i, False) for i in others[: MAX_MISTAKES - len(figures)]]
    return (
        f"<p>{len(wrong)} of {len(predictions.labels)} images, the most confident first. "
        f"{text(reason)}</p>"
        f'<div class="gallery">{"".join(figures)}</div>'
    )


def _mistake(predictions: Predictions, gallery: Gallery, i: int, is_suspect: bool) -> str:
    label, predicted = predictions.labels[i], predictions.predicted[i]
    of_label, of_predicted = (predictions.probabilities[i, k] for k in (label, predicted))
    names = [text(predictions.classes[k]) for k in (label, predicted)]
    source = f"data:image/webp;base64,{_base64(gallery.thumbnails[i])}"
    thumbnail = image(source, f"{names[0]}, predicted as {names[1]}")
    check = "<br><b>check the label</b>" if is_suspect else ""
    return (
        f'<figure>{thumbnail}<figcaption>predicted <b class="wrong">{names[1]}</b> '
        f"{of_predicted:.0%}<br>labelled {names[0]} {of_label:.0%}{check}<br>{text(gallery.names[i])}"
        "</figcaption></figure>"
    )


def stage_maps(model: MidFeaClassifier, predictions: Predictions, images: Sequence[Any]) -> str:
    """Images of different classes on their way through the stages."""
    rows = []
    chosen = samples(predictions)
    for i in track(chosen, "stage maps", len(chosen)):
        maps = model.feature_maps(images[i])
        drawings = [(str(predictions.classes[predictions.labels[i]]), maps["image"])]
        drawings += stage_drawings(maps)[1:]
        cells = "".join(figure(pixels, caption) for caption, pixels in drawings)
        rows.append(f'<div class="stages">{cells}</div>')
    return (
        "<p>The image as the model sees it; which filter responds where (in the colour of its frame "
        "above, the brighter the stronger); what is left after pooling; the word at each place, one "
        f"colour for each of the {len(model.codebook_)} words.</p>"
        f'<div class="rows">{"".join(rows)}</div>'
    )


def samples(predictions: Predictions) -> list[int]:
    """A correct image of each of some classes, spread over all of them."""
    correct = np.flatnonzero(predictions.correct)
    firsts = correct[np.unique(predictions.labels[correct], return_index=True)[1]]
    spread = np.linspace(0, len(firsts) - 1, min(MAX_SAMPLES, len(firsts)))
    return firsts[spread.astype(int)].tolist()


def script_data(predictions: Predictions, gallery: Gallery) -> str:
    """The images behind every cell of the confusion matrix, for the script: each thumbnail once."""
    chosen = chosen_images(predictions, [len(thumbnail) for thumbnail in gallery.thumbnails])
    cells: dict[str, list[int]] = {}
    for number, i in enumerate(chosen):
        cells.setdefault(f"{predictions.labels[i]}-{predictions.predicted[i]}", []).append(number)
    counts, confidence = predictions.confusion, predictions.confidence.tolist()
    data = {
        "classes": [str(name) for name in predictions.classes],
        "counts": {f"{i}-{j}": int(counts[i, j]) for i, j in np.argwhere(counts)},
        "cells": cells,
        "images": [
            (_base64(gallery.thumbnails[i]), gallery.names[i], round(confidence[i], 3)) for i in chosen
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


def _base64(file: bytes) -> str:
    return base64.b64encode(file).decode()
