"""What a model said of labelled images, and which of it is worth looking at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

THUMBNAIL_BYTES = 9_000_000  # of all small copies together; base64 makes 12 MB of them


class Pair(NamedTuple):
    """Two classes, by number: images of one that were taken for the other."""

    shown: int
    said: int
    images: int
    share: float  # of the images of the class shown


@dataclass(frozen=True)
class Answers:
    """Labelled images and the answers of a model that did not learn from them.

    Attributes
    ----------
    labels, predicted : of each image
    classes : all labels the model knows, sorted
    probabilities : (n, n_classes), columns in the order of `classes`; rows of NaN where not known
    images : pixels
    thumbnails : small copies, as files
    names : how to speak of each image, such as its file name
    """

    labels: NDArray[Any]
    predicted: NDArray[Any]
    classes: NDArray[Any]
    probabilities: NDArray[np.float64]
    images: Sequence[Any]
    thumbnails: Sequence[bytes]
    names: Sequence[str]

    @cached_property
    def shown(self) -> NDArray[np.intp]:
        """Class numbers of the labels."""
        return np.searchsorted(self.classes, self.labels)

    @cached_property
    def said(self) -> NDArray[np.intp]:
        """Class numbers of the answers."""
        return np.searchsorted(self.classes, self.predicted)

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Of each image, whether it was told."""
        return self.shown == self.said

    @cached_property
    def confusion(self) -> NDArray[np.intp]:
        """Counts, (class shown, class said)."""
        n = len(self.classes)
        counts = np.bincount(self.shown * n + self.said, minlength=n * n)
        return counts.reshape(n, n)

    @cached_property
    def sureness(self) -> NDArray[np.float64]:
        """The probability of each answer; NaN where not known."""
        return self.probabilities[np.arange(len(self.said)), self.said]

    def confused_pairs(self, most: int = 10) -> list[Pair]:
        """Those with the most images first."""
        counts = self.confusion - np.diag(np.diag(self.confusion))
        of_class = np.maximum(self.confusion.sum(axis=1), 1)
        order = np.argsort(-counts, axis=None, kind="stable")[:most]
        pairs = [np.unravel_index(i, counts.shape) for i in order]
        return [
            Pair(int(a), int(b), int(counts[a, b]), float(counts[a, b] / of_class[a]))
            for a, b in pairs
            if counts[a, b]
        ]

    def surely_wrong(self) -> NDArray[np.intp]:
        """Images told wrongly, the surest first: the first ones often bear a wrong label."""
        wrong = np.flatnonzero(~self.right)
        return wrong[np.argsort(-np.nan_to_num(self.sureness[wrong]), kind="stable")]

    def kept(self, most_bytes: int = THUMBNAIL_BYTES) -> set[int]:
        """Images whose small copies fit into a page: all if possible, else mistakes before right ones,
        and from each cell of the confusion matrix its first, then its second, and so on."""
        place: dict[tuple[int, int], int] = {}
        ranks: list[int] = []
        for cell in zip(self.shown.tolist(), self.said.tolist(), strict=True):
            ranks.append(place.get(cell, 0))
            place[cell] = ranks[-1] + 1
        chosen, spent = set(), 0
        for i in np.lexsort((np.array(ranks), self.right)):
            spent += len(self.thumbnails[i])
            if spent > most_bytes:
                break
            chosen.add(int(i))
        return chosen
