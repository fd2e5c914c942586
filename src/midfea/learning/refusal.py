"""How well does a classifier refuse images of other things? Its own classes, left out, show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midfea.learning.belonging import Belonging, area_under_curve, fit_belonging, refused
from midfea.learning.class_weights import Weights
from midfea.learning.folds import Indices, make_folds
from midfea.learning.head import LinearHead, fit_linear_head, validate_C
from midfea.progress import reporting_to, track

N_CLASS_GROUPS = 5  # classes are left out in so many groups
N_FOLDS = 3
SHARES = (0.01, 0.05)  # of the images of the classes, that may be refused


@dataclass(frozen=True)
class Refusal:
    """What happens to images of classes that a classifier does not know.

    Attributes
    ----------
    n_images : of classes left out
    area : how often an image of the classes belongs more than one of a class left out (area under the
        curve: 0.5 by chance, 1 at best)
    refused : for each of `SHARES`, the share of the images left out that is refused
    """

    n_images: int
    area: float
    refused: tuple[float, ...]


def leave_classes_out(
    features: NDArray[np.float32],
    y: Indices,
    C: float,
    seed: int,
    groups: Indices | None = None,
    class_weights: Weights | None = None,
) -> Refusal | None:
    """Refusal by linear SVMs that were trained without some of the classes.

    None if there are fewer than three classes, or too few images.
    """
    n_classes = int(y.max()) + 1
    order = np.random.RandomState(seed).permutation(n_classes)
    parts = [part for part in np.array_split(order, min(N_CLASS_GROUPS, n_classes)) if len(part)]
    areas, kept_shares, counts = [], [], []
    for left_out in track(parts, "leaving classes out", len(parts)):
        unknown = np.isin(y, left_out)
        if n_classes - len(left_out) < 2:
            return None
        known = np.flatnonzero(~unknown)
        own_groups = None if groups is None else groups[known]
        own_weights = None if class_weights is None else np.delete(class_weights, left_out)
        labels = np.unique(y[known], return_inverse=True)[1]
        with reporting_to(None):  # its steps have the names of the model's own
            fitted = _fit(features[known], labels, C, seed, own_groups, own_weights)
        if fitted is None:
            return None
        head, belonging = fitted
        scores = head.logit_scale * head.scores(features[unknown]).astype(np.float64)
        values = belonging.values(scores, features[unknown])
        areas.append(area_under_curve(belonging.reference, values))
        found = belonging.of(scores, features[unknown])
        kept_shares.append([float(refused(found, share).mean()) for share in SHARES])
        counts.append(len(values))
    shares = np.average(kept_shares, axis=0, weights=counts)
    return Refusal(sum(counts), float(np.average(areas, weights=counts)), tuple(shares.tolist()))


def _fit(
    features: NDArray[np.float32],
    y: Indices,
    C: float,
    seed: int,
    groups: Indices | None,
    class_weights: Weights | None,
) -> tuple[LinearHead, Belonging] | None:
    """A linear head for these classes alone, and what belongs to them."""
    folds = make_folds(y, N_FOLDS, seed, groups)
    validated = validate_C(features, y, (C,), folds, class_weights=class_weights)
    belonging = fit_belonging(validated.record(y, folds, groups), features, folds, groups, seed)
    if belonging is None:
        return None
    scale = validated.logit_scale
    return fit_linear_head(features, y, C, scale, np.asarray, class_weights), belonging
