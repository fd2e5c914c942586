"""`NetworkHead`: the fine-tuned network beside the linear head, and its fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from midfea.engines import EngineSettings
from midfea.learning.codebook import learn_extractor
from midfea.learning.extractor import map_pictures
from midfea.learning.folds import Indices, split
from midfea.learning.network.joint import join, joint_weights, log_loss, weights_without_validation
from midfea.learning.network.model import SIDE, WINDOW, Network, squares_of
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.settings import ChainSettings
from midfea.learning.validation import Validation, no_validation
from midfea.pictures.picture import NO_COLOUR, Picture

if TYPE_CHECKING:
    from midfea.learning.network.module import Start

# Where the same things lie in the same places of all images, augmented images are hardly moved.
CHANGE_IN_PLACE, LIGHTING_IN_PLACE = 0.1, 0.5


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

    def log_probabilities(self, pictures: Sequence[Picture], n_threads: int) -> NDArray[np.float64]:
        """Of the network's two classifiers, (2, n, n_classes)."""
        return _log_probabilities(self.network, pictures, n_threads)

    def join(
        self, linear: NDArray[np.float32], log_probabilities: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Joint scores (n, n_classes); their softmax are probabilities."""
        return join(np.stack([linear, *log_probabilities]), self.weights)

    def scores(
        self, linear: NDArray[np.float32], pictures: Sequence[Picture], n_threads: int
    ) -> NDArray[np.float64]:
        """Joint scores of pictures whose linear scores are known."""
        return self.join(linear, self.log_probabilities(pictures, n_threads))


def _log_probabilities(
    network: Network, pictures: Sequence[Picture], n_threads: int
) -> NDArray[np.float64]:
    work = map_pictures(network.log_probabilities, pictures, n_threads, "network")
    return np.stack(list(work), axis=1)


@dataclass(frozen=True, eq=False)
class NetworkTask:
    """What the network is trained on, and how.

    Attributes
    ----------
    linear_scores : (n, n_classes), of the linear head in validation
    logit_scale : of the linear head
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
        squares = self._squares()
        start = self._start(squares)
        n_seen = self.settings.images_seen(len(self.y), self.per_class, self.aligned)
        everyone = np.arange(len(self.y))
        fold_numbers = [int(fold) for fold in np.unique(self.folds) if fold >= 0]
        if not fold_numbers:
            network = self._train(squares, everyone, start, False, n_seen, "fine-tuning")
            n_classes = self.linear_scores.shape[1]
            weights = weights_without_validation(self.per_class, n_classes)
            return NetworkHead(network, weights), no_validation(n_classes)
        mirror, indices, scores = self._validate(squares, start, fold_numbers)
        weights = self._weights(scores, indices)
        network = self._train(squares, everyone, start, mirror, n_seen, "fine-tuning")
        validation = Validation(
            indices=indices,
            labels=self.y[indices],
            scores=join(scores, weights),
            folds=self.folds[indices],
            n_folds=self.settings.n_folds,
            n_groups=self._n_groups(indices),
        )
        return NetworkHead(network, weights), validation

    def _validate(
        self, squares: NDArray[np.float32], start: Start, fold_numbers: list[int]
    ) -> tuple[bool, Indices, NDArray[np.float64]]:
        """Whether mirrored images help; the images held out, and all scores of them."""
        _, held_out = split(self.folds, fold_numbers[0])
        best = -np.inf
        mirror, scores = False, np.zeros(0)
        for i, candidate in enumerate(self.settings.mirror_candidates):
            what = f"fine-tuning, trial {i + 1}"
            tried = self._scores_without(squares, start, fold_numbers[0], candidate, what)
            joined = join(tried, self._weights(tried, held_out))
            likelihood = -log_loss(joined, self.y[held_out]) * self._n_groups(held_out)
            likelihood -= self.settings.min_mirror_gain * candidate
            if likelihood > best:
                best, mirror, scores = likelihood, candidate, tried
        if len(held_out) >= self.settings.min_validation_images:
            return mirror, held_out, scores
        parts, all_scores = [held_out], [scores]
        for i, fold in enumerate(fold_numbers[1:], start=2):
            parts.append(split(self.folds, fold)[1])
            what = f"fine-tuning, fold {i}"
            all_scores.append(self._scores_without(squares, start, fold, mirror, what))
        order = np.argsort(np.concatenate(parts))
        return mirror, np.concatenate(parts)[order], np.concatenate(all_scores, axis=1)[:, order]

    def _scores_without(
        self, squares: NDArray[np.float32], start: Start, fold: int, mirror: bool, what: str
    ) -> NDArray[np.float64]:
        """Scores of a fold, (3, n, n_classes), by heads trained without it."""
        train, held_out = split(self.folds, fold)
        n_seen = self.settings.images_seen_in_trial(len(self.y), self.aligned)
        network = self._train(squares, train, start, mirror, n_seen, what)
        pictures = [self.pictures[i] for i in held_out]
        by_network = _log_probabilities(network, pictures, self.n_threads)
        return np.stack([self.linear_scores[held_out], *by_network])

    def _weights(self, scores: NDArray[np.float64], indices: Indices) -> NDArray[np.float64]:
        groups = None if self.groups is None else self.groups[indices]
        return joint_weights(scores, self.y[indices], groups, self.logit_scale)

    def _n_groups(self, indices: Indices) -> int:
        return len(indices) if self.groups is None else len(np.unique(self.groups[indices]))

    def _squares(self) -> NDArray[np.float32]:
        """All images as the network sees them, (n, 1 or 3, SIDE, SIDE)."""
        work = map_pictures(squares_of, self.pictures, self.n_threads, "small images")
        squares = np.stack(list(work))
        colour = self.per_class >= self.settings.images_per_class_for_colour
        return squares if colour and (squares[:, 1:] != NO_COLOUR).any() else squares[:, :1]

    def _start(self, squares: NDArray[np.float32]) -> Start:
        """Filters and words learned without labels, or noise of the same size."""
        from midfea.learning.network.module import Start

        settings = ChainSettings(
            n_filters=self.settings.n_filters,
            pairs=False,
            window=WINDOW,
            n_words=min(self.settings.n_words, 50 * len(squares)),
            projection=None,
            max_side=SIDE,
        )
        pictures = [Picture(square[0]) for square in squares]
        rng = np.random.RandomState(self.seed)
        chain = learn_extractor(pictures, settings, EngineSettings(), self.n_threads, rng).chain
        start = Start(chain.filters, chain.words)
        return start if self.settings.unsupervised_start else start.noise(self.seed)

    def _train(
        self,
        squares: NDArray[np.float32],
        chosen: Indices,
        start: Start,
        mirror: bool,
        n_seen: int,
        what: str,
    ) -> Network:
        from midfea.learning.network.training import Change, train

        lighting = self.settings.change(self.per_class)
        change = Change(moves=min(lighting, 1.5), lighting=lighting, mirror=mirror)
        if self.in_place:
            change = Change(CHANGE_IN_PLACE, LIGHTING_IN_PLACE, mirror)
        return train(
            squares[chosen],
            self.y[chosen],
            start,
            change,
            self.settings,
            aligned=self.aligned,
            n_seen=n_seen,
            seed=self.seed,
            n_threads=self.n_threads,
            device=self.device,
            what=what,
        )
