"""Does an image look like those of the classes at all? What "none of these" is decided by.

A classifier without this question is often most sure about images of other things. Two signs tell them:

- their scores: an image of a class has scores like those of validation images of that class, in all
  columns and not in the largest one alone. Measured by the cosine and by the relative Mahalanobis
  distance (Ren et al. 2021) to the mean scores of the classes, within the classes' covariance;
- their features: images of a very different kind lie far from the mean of the training features, or too
  near to it, beyond the main directions in which training images vary.

The value that both make is compared with those of validation images, which the models had not seen:

    belonging = (1 + number of validation images with a value as low) / (1 + number of validation images)

So an image of the classes has a belonging of at most a with a probability of at most a (split conformal
prediction, Vovk et al. 2005), and who refuses images with a belonging of at most 0.01 refuses at most
one in a hundred images of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import to_numpy
from midfea.learning.class_weights import make_class_weights
from midfea.learning.folds import Indices, make_folds, splits
from midfea.learning.principal import principal_directions
from midfea.learning.svm import fit_linear_svm
from midfea.learning.validation import Validation

Floats = NDArray[np.float64]
Features = NDArray[np.float32]

SHRINKAGE = 0.1  # of covariances of scores, towards equal variances
N_DIRECTIONS = 8  # in which training images may vary
MAX_IMAGES_FOR_DIRECTIONS = 400
USUAL_DEVIATIONS = 2.0  # features nearer to the usual than this say nothing
FEATURE_PRICE = 2.0  # for the squared deviations beyond
N_PARTS = 5  # of the validation record, each measured by the others
MIN_IMAGES = 10
C_AGAINST_OTHERS = 1.0


@dataclass(frozen=True, eq=False)
class ScoreShape:
    """How the scores of validation images are spread: within the classes, and altogether.

    Attributes
    ----------
    mean : (k,) of the classes' means
    within, total : (k, k); scores less the mean, times these, have about unit covariance
    centres : (k, k), the classes' means as `within` makes them
    total_mean : (k,), of all images
    """

    mean: Floats
    within: Floats
    total: Floats
    centres: Floats
    total_mean: Floats

    @classmethod
    def of(cls, scores: Floats, y: Indices) -> ScoreShape:
        """Of scores (n, k) of images of known classes; every class has one at least."""
        centres = np.stack([scores[y == label].mean(axis=0) for label in range(scores.shape[1])])
        mean, total_mean = centres.mean(axis=0), scores.mean(axis=0)
        within, total = _whitening(scores - centres[y]), _whitening(scores - total_mean)
        return cls(mean, within, total, (centres - mean) @ within, total_mean)

    def measures(self, scores: Floats) -> Floats:
        """Largest cosine, and relative distance with its sign turned, (n, 2) of scores (n, k)."""
        inside = (scores - self.mean) @ self.within
        lengths, own = (np.linalg.norm(a, axis=1, keepdims=True) for a in (inside, self.centres))
        products = inside @ self.centres.T
        cosines = products / np.maximum(lengths * own.T, 1e-12)
        distances = (lengths**2 + own.T**2 - 2 * products).min(axis=1)
        background = np.square((scores - self.total_mean) @ self.total).sum(axis=1)
        return np.stack([cosines.max(axis=1), background - distances], axis=1)


@dataclass(frozen=True, eq=False)
class FeatureShape:
    """Where training features lie: their mean (p,), and the directions (p, r) in which they vary."""

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]

    @classmethod
    def of(cls, features: Features, seed: int) -> FeatureShape:
        """Of some of the features (n, p)."""
        rows = np.random.RandomState(seed).permutation(len(features))[:MAX_IMAGES_FOR_DIRECTIONS]
        n_directions = min(N_DIRECTIONS, max(len(rows) - 1, 1))
        mean, directions = principal_directions(features[np.sort(rows)], n_directions)
        return cls(to_numpy(mean).astype(np.float32), to_numpy(directions).astype(np.float32))

    def residuals(self, features: Features) -> Floats:
        """Squared distances from the mean, without what the directions explain, (n,)."""
        squares = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        to_mean = squares - 2 * (features @ self.mean) + float(self.mean @ self.mean)
        along = (features @ self.directions - self.mean @ self.directions).astype(np.float64)
        return np.asarray(to_mean - np.square(along).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Belonging:
    """Fitted: how much an image must look like those of the classes.

    Attributes
    ----------
    scores, features : what is usual of them
    against : (p + 1,) weights and intercept of a linear SVM between images of the classes and others, if
        others were given
    medians : (3 or 4,) of each measure among images of the classes
    scales : (3 or 4,), one over the deviation of each measure; 0 for one that says nothing
    reference : values of validation images, sorted
    """

    scores: ScoreShape
    features: FeatureShape
    against: NDArray[np.float32] | None
    medians: Floats
    scales: Floats
    reference: Floats

    def of(self, scores: Floats, features: Features) -> Floats:
        """The belonging, above 0 and up to 1, of images with these logits (n, k) and features (n, p)."""
        lower = np.searchsorted(self.reference, self.values(scores, features), side="right")
        return np.asarray((1 + lower) / (1 + len(self.reference)))

    def values(self, scores: Floats, features: Features) -> Floats:
        """The values behind it: they tell images apart where the belonging is the smallest possible."""
        measures = [*self.scores.measures(scores).T, self.features.residuals(features)]
        if self.against is not None:
            measures.append(features @ self.against[:-1] + self.against[-1])
        return _values((np.stack(measures, axis=1) - self.medians) * self.scales)

    @property
    def smallest(self) -> float:
        """The smallest belonging that there can be: no image is refused at a smaller share."""
        return 1 / (1 + len(self.reference))


def fit_belonging(
    validation: Validation,
    features: Features,
    folds: Indices,
    groups: Indices | None,
    seed: int,
    others: Features | None = None,
) -> Belonging | None:
    """What the validation record and the training features (n, p) say of belonging.

    None if there are fewer than `MIN_IMAGES` validation images, or none of some class.

    Parameters
    ----------
    folds, groups : of the training images
    others : features of images that belong to none of the classes
    """
    y, scores = validation.labels, validation.scores
    if len(y) < MIN_IMAGES or len(np.unique(y)) < scores.shape[1]:
        return None
    measures = [*_held_out_measures(scores, y, groups, validation.indices, seed).T]
    residuals, against = np.zeros(len(y)), np.zeros(len(y))
    for fold in np.unique(validation.folds):
        held_out, train = validation.folds == fold, features[folds != fold]
        rows = features[validation.indices[held_out]]
        residuals[held_out] = FeatureShape.of(train, seed).residuals(rows)
        if others is not None:
            weights = _against(train, others)
            against[held_out] = rows @ weights[:-1] + weights[-1]
    measures += [residuals] if others is None else [residuals, against]
    table = np.stack(measures, axis=1)
    medians = np.median(table, axis=0)
    # The median of absolute deviations, in units of a normal distribution's standard deviation.
    deviations = 1.4826 * np.median(np.abs(table - medians), axis=0)
    constant = deviations < 1e-9
    scales = np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviations))
    return Belonging(
        ScoreShape.of(scores, y),
        FeatureShape.of(features, seed),
        None if others is None else _against(features, others),
        medians,
        scales,
        np.sort(_values((table - medians) * scales)),
    )


def _values(z: Floats) -> Floats:
    """One value of standardised measures (n, 3 or 4); lower for images that belong less."""
    unusual = np.maximum(np.abs(z[:, 2]) - USUAL_DEVIATIONS, 0)
    values = (z[:, 0] + z[:, 1]) / 2 - FEATURE_PRICE * unusual**2
    return np.asarray(values if z.shape[1] == 3 else values + z[:, 3])


def _held_out_measures(
    scores: Floats, y: Indices, groups: Indices | None, indices: Indices, seed: int
) -> Floats:
    """Measures of each validation image by the others; by all where its class would be missing."""
    measures = ScoreShape.of(scores, y).measures(scores)
    own_groups = None if groups is None else groups[indices]
    for train, test in splits(make_folds(y, N_PARTS, seed, own_groups)):
        measures[test] = ScoreShape.of(scores[train], y[train]).measures(scores[test])
    return measures


def _whitening(centred: Floats) -> Floats:
    """A matrix that gives centred rows about unit covariance."""
    k = centred.shape[1]
    covariance = centred.T @ centred / len(centred)
    variance = max(float(np.trace(covariance)) / k, 1e-12)
    mixed = (1 - SHRINKAGE) * covariance + SHRINKAGE * variance * np.eye(k)
    variances, directions = np.linalg.eigh(mixed)
    return np.asarray(directions / np.sqrt(variances))


def _against(features: Features, others: Features) -> NDArray[np.float32]:
    """Weights and intercept (p + 1,) of an SVM whose scores are positive for the first of both."""
    both = np.concatenate([others, features])
    y = np.repeat([0, 1], [len(others), len(features)])
    weights = make_class_weights("balanced", np.arange(2), y)
    coef, intercept = fit_linear_svm(both, y, np.float32(C_AGAINST_OTHERS) * weights[y])
    return np.concatenate([coef[:, 0], intercept])


def images_needed(share: float) -> int:
    """Validation images that are needed before any image can be refused at this share."""
    return math.ceil(1 / share - 1e-9) - 1


def check_unknown(unknown: float | None) -> None:
    """ValueError if the parameter `unknown` cannot be used."""
    fine = isinstance(unknown, float | int) and not isinstance(unknown, bool) and 0 < unknown < 1
    if unknown is not None and not fine:
        raise ValueError(
            "unknown is the share of images of the classes that may be refused, above 0 and below 1 "
            f"(such as 0.01), or None; got {unknown!r}"
        )


def refused(belonging: Floats, unknown: float) -> NDArray[np.bool_]:
    """Which images are none of the classes, if this share of the classes' images may be refused."""
    return np.asarray(belonging <= unknown * (1 + 1e-12))


def area_under_curve(known: Sequence[float] | Floats, unknown: Sequence[float] | Floats) -> float:
    """How often an image of the classes has a higher value than another one; ties count half."""
    low, high = np.sort(np.asarray(unknown)), np.asarray(known)
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(below.mean() / 2 / len(low))
