"""`NetworkHead`: the fine-tuned network beside the linear head, and its fitting.

The linear head sees fixed features of the whole image, the network a small one; they err on different
images. The weights that join them are those that make the labels of validation images most likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from midfea.engines import EngineSettings
from midfea.learning.class_weights import Weights
from midfea.learning.codebook import learn_extractor
from midfea.learning.extractor import map_pictures
from midfea.learning.folds import Indices, count_groups, splits
from midfea.learning.network.model import SIDE, WINDOW, Network, squares_of
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.settings import ChainSettings
from midfea.learning.validation import Validation, no_validation
from midfea.pictures.picture import NO_COLOUR, Picture

if TYPE_CHECKING:
    from midfea.learning.network.module import Start

# Where the same things lie in the same places of all images, augmented images are hardly moved.
CHANGE_IN_PLACE, LIGHTING_IN_PLACE = 0.1, 0.5

# Weights of the linear head and of the network's two classifiers, and the log-likelihood, of all
# validation images, that other weights must gain for each unit of squared distance.
USUAL_WEIGHTS = np.array([1.0, 0.5, 0.5])
PRICE_OF_OTHER_WEIGHTS = 0.02
# With groups: few of them, each with much the same to say, count as one image does. The linear head's
# weight is relative to its logit scale.
USUAL_WEIGHTS_WITH_GROUPS = np.array([1.0, 0.7, 0.2])
PRICE_WITH_GROUPS = 0.5
MAX_WEIGHT = 50.0
# With one image of each class nothing can be held out. The linear head's weight then grows with the
# square of the number of classes.
SINGLE_IMAGE_WEIGHT = 0.008


@dataclass(frozen=True, eq=False)
class NetworkHead:
    """A fine-tuned network and the weights by which its scores are joined to the linear head's.

    Attributes
    ----------
    network : what is run on each image
    weights : (3,), of the linear head and of the network's two classifiers
    """

    network: Network
    weights: NDArray[np.float64]

    def scores(
        self, linear: NDArray[np.float32], pictures: Sequence[Picture], n_threads: int
    ) -> NDArray[np.float64]:
        """Joint scores of pictures whose linear scores are known."""
        return join(all_scores(linear, self.network, pictures, n_threads), self.weights)


def all_scores(
    linear: NDArray[np.float32], network: Network, pictures: Sequence[Picture], n_threads: int
) -> NDArray[np.float64]:
    """Of the linear head and of the network's two classifiers, (3, n, n_classes)."""
    by_network = map_pictures(network.log_probabilities, pictures, n_threads, "network")
    return np.stack([linear, *np.stack(list(by_network), axis=1)])


@dataclass(frozen=True, eq=False)
class NetworkTask:
    """What the network is trained on, and how.

    Attributes
    ----------
    linear_scores : (n, n_classes), of the linear head in validation
    logit_scale : of the linear head
    class_weights : how much the images of each class count
    folds : of each image, the same as for the linear head
    aligned : a grid of cells suits the images: descriptors are taken at every place
    in_place : the same things lie in the same places of all images: they are changed less
    device : where torch works
    """

    pictures: Sequence[Picture]
    y: Indices
    folds: Indices
    groups: Indices | None
    linear_scores: NDArray[np.float32]
    logit_scale: float
    class_weights: Weights
    aligned: bool
    in_place: bool
    settings: NetworkSettings
    seed: int
    n_threads: int
    device: str

    @property
    def per_class(self) -> float:
        """Images of a class, on average."""
        return len(self.y) / len(np.unique(self.y))

    def fit(self) -> tuple[NetworkHead, Validation]:
        """The network trained on all images, its weights by validation, and the record of that."""
        n_classes = self.linear_scores.shape[1]
        mirror, validation = False, no_validation(n_classes)
        weights = weights_without_validation(self.per_class, n_classes)
        parts = splits(self.folds)
        if parts:
            mirror, indices, scores = self._validate(parts)
            weights = self._weights(scores, indices)
            joined, n_folds = join(scores, weights), self.settings.n_folds
            validation = Validation.of(indices, joined, self.y, self.folds, n_folds, self.groups)
        n_seen = self.settings.images_seen(len(self.y), self.per_class, self.aligned)
        network = self._train(np.arange(len(self.y)), mirror, n_seen, "fine-tuning")
        return NetworkHead(network, weights), validation

    def _validate(
        self, parts: list[tuple[Indices, Indices]]
    ) -> tuple[bool, Indices, NDArray[np.float64]]:
        """Whether mirrored images help; the images held out, and all scores of them."""
        train, held_out = parts[0]
        best = -np.inf
        mirror, scores = False, np.zeros(0)
        for i, candidate in enumerate(self.settings.mirror_candidates):
            tried = self._scores_without(train, held_out, candidate, f"fine-tuning, trial {i + 1}")
            joined = join(tried, self._weights(tried, held_out))
            loss = log_loss(joined, self.y[held_out], self.class_weights)
            likelihood = -loss * count_groups(self.groups, held_out)
            likelihood -= self.settings.min_mirror_gain * candidate
            if likelihood > best:
                best, mirror, scores = likelihood, candidate, tried
        if len(held_out) >= self.settings.min_validation_images:
            return mirror, held_out, scores
        others = [
            self._scores_without(*part, mirror, f"fine-tuning, fold {i}")
            for i, part in enumerate(parts[1:], start=2)
        ]
        indices = np.concatenate([held_out for _, held_out in parts])
        order = np.argsort(indices)
        return mirror, indices[order], np.concatenate([scores, *others], axis=1)[:, order]

    def _scores_without(
        self, train: Indices, held_out: Indices, mirror: bool, what: str
    ) -> NDArray[np.float64]:
        """Scores of images held out, (3, n, n_classes), by heads trained without them."""
        n_seen = self.settings.images_seen_in_trial(len(self.y), self.aligned)
        network = self._train(train, mirror, n_seen, what)
        pictures = [self.pictures[i] for i in held_out]
        return all_scores(self.linear_scores[held_out], network, pictures, self.n_threads)

    def _weights(self, scores: NDArray[np.float64], indices: Indices) -> NDArray[np.float64]:
        groups = None if self.groups is None else self.groups[indices]
        return joint_weights(scores, self.y[indices], groups, self.logit_scale, self.class_weights)

    @cached_property
    def squares(self) -> NDArray[np.float32]:
        """All images as the network sees them, (n, 1 or 3, SIDE, SIDE)."""
        work = map_pictures(squares_of, self.pictures, self.n_threads, "small images")
        squares = np.stack(list(work))
        colour = self.per_class >= self.settings.images_per_class_for_colour
        return squares if colour and (squares[:, 1:] != NO_COLOUR).any() else squares[:, :1]

    @cached_property
    def start(self) -> Start:
        """Filters and words learned without labels, or noise of the same size."""
        from midfea.learning.network.module import Start

        settings = ChainSettings(
            n_filters=self.settings.n_filters,
            pairs=False,
            window=WINDOW,
            n_words=min(self.settings.n_words, 50 * len(self.y)),
            projection=None,
            max_side=SIDE,
        )
        pictures = [Picture(square[0]) for square in self.squares]
        rng = np.random.RandomState(self.seed)
        chain = learn_extractor(pictures, settings, EngineSettings(), self.n_threads, rng).chain
        start = Start(chain.filters, chain.words)
        return start if self.settings.unsupervised_start else start.noise(self.seed)

    def _train(self, chosen: Indices, mirror: bool, n_seen: int, what: str) -> Network:
        from midfea.learning.network.training import Change, train

        lighting = self.settings.change(self.per_class)
        change = Change(moves=min(lighting, 1.5), lighting=lighting, mirror=mirror)
        if self.in_place:
            change = Change(CHANGE_IN_PLACE, LIGHTING_IN_PLACE, mirror)
        return train(
            self.squares[chosen],
            self.y[chosen],
            self.class_weights[self.y[chosen]],
            self.start,
            change,
            self.settings,
            aligned=self.aligned,
            n_seen=n_seen,
            seed=self.seed,
            n_threads=self.n_threads,
            device=self.device,
            what=what,
        )


def join(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of all together, (n, n_classes); their softmax are probabilities."""
    return np.tensordot(weights, np.asarray(scores, dtype=np.float64), 1)


def joint_weights(
    scores: NDArray[np.float64],
    y: Indices,
    groups: Indices | None = None,
    logit_scale: float = 1.0,
    class_weights: Weights | None = None,
) -> NDArray[np.float64]:
    """The weights that make the labels of validation images most likely, none below zero.

    Weights far from the usual ones must be worth it, or ten images could decide by chance.

    Parameters
    ----------
    groups : of the validation images, if groups were held out
    logit_scale : of the linear head; used with groups
    class_weights : how much the images of each class count; None: all the same
    """
    usual, unit, price = USUAL_WEIGHTS, np.ones(3), PRICE_OF_OTHER_WEIGHTS / len(y)
    if groups is not None:
        unit = np.array([logit_scale, 1.0, 1.0])
        usual = USUAL_WEIGHTS_WITH_GROUPS * unit
        price = PRICE_WITH_GROUPS / len(np.unique(groups))

    def cost(weights: NDArray[np.float64]) -> float:
        distance = float(np.square((weights - usual) / unit).sum())
        return log_loss(join(scores, weights), y, class_weights) + price * distance

    bounds = [(0, MAX_WEIGHT)] * len(usual)
    return np.asarray(minimize(cost, usual, bounds=bounds, method="L-BFGS-B").x)


def weights_without_validation(per_class: float, n_classes: int) -> NDArray[np.float64]:
    """The weights where nothing could be held out."""
    by_head = 1.0 if per_class > 1 else SINGLE_IMAGE_WEIGHT * n_classes**2
    return USUAL_WEIGHTS * [by_head, 1, 1]


def log_loss(scores: NDArray[np.float64], y: Indices, class_weights: Weights | None = None) -> float:
    """Mean negative log-likelihood, with one pseudo-image more whose label is uniform.

    Without it, weights grow beyond all bounds when every validation image is correct.
    """
    logs = log_softmax(scores, axis=1)
    counts = np.ones(len(y)) if class_weights is None else class_weights[y].astype(np.float64)
    own = counts @ logs[np.arange(len(y)), y]
    uniform = counts @ logs.mean(axis=1) / counts.sum()
    return float(-(own + uniform) / (counts.sum() + 1))
