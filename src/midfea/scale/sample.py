"""Some images of a manifest, drawn at random in one pass: filters and words are learned from them."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from midfea.pictures.picture import Picture
from midfea.progress import track
from midfea.scale.decoder import Decoder, Failure, View
from midfea.scale.files import LeftOut
from midfea.scale.manifest import ROWS_AT_ONCE, Manifest, Row


@dataclass
class Sample:
    """Images of a manifest, in its order.

    Attributes
    ----------
    pictures, labels : of each image
    left_out : images that were drawn and cannot be used, and why
    counts : images of each class in the whole manifest
    """

    counts: Counter[str]
    pictures: list[Picture] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def draw_rows(manifest: Manifest, n: int, seed: int) -> tuple[list[Row], Counter[str]]:
    """n rows with a label, each set of n equally likely, and the rows of each class in all.

    One pass; no more than the rows drawn, and `ROWS_AT_ONCE` others, are in memory.
    """
    rng, counts = np.random.RandomState(seed), Counter[str]()
    drawn: list[Row] = []
    places = np.zeros(0)  # random numbers: the n smallest ones are drawn
    for first in track(
        range(0, len(manifest), ROWS_AT_ONCE), "listing images", -(-len(manifest) // ROWS_AT_ONCE)
    ):
        rows = manifest.rows(first, min(ROWS_AT_ONCE, len(manifest) - first))
        rows = [row for row in rows if row.label is not None]
        counts.update(str(row.label) for row in rows)
        drawn += rows
        places = np.concatenate([places, rng.random_sample(len(rows))])
        if len(places) > n:
            smallest = np.sort(np.argpartition(places, n)[:n])
            drawn, places = [drawn[i] for i in smallest], places[smallest]
    return drawn, counts


def read_sample(manifest: Manifest, n: int, seed: int, max_side: int | None, min_side: int) -> Sample:
    """n images that have a label, as a classifier with these sizes wants them.

    ValueError if none can be read.
    """
    rows, counts = draw_rows(manifest, n, seed)
    sample = Sample(counts)
    with closing(Decoder(View(max_side, min_side, rounded=False))) as decoder:
        for row in track(rows, "reading files", len(rows)):
            result = decoder.decode(row.address)
            if isinstance(result, Failure):
                sample.left_out.append(LeftOut(row.address, result.reason))
            else:
                sample.pictures.append(result)
                sample.labels.append(str(row.label))
    if not sample.pictures:
        why = f": {sample.left_out[0].path}: {sample.left_out[0].reason}" if sample.left_out else ""
        raise ValueError(f"{manifest.path}: no image with a label can be read{why}")
    return sample
