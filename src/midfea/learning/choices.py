"""Settings of the chain that are "auto", chosen by validation on the training images.

floor : normalisation raises the faintest texture to full strength. In photographs of one thing on a flat
    ground that is sensor noise, which a floor leaves out; in faces under changing light it is the face.
partition : a pyramid of cells allows for things that move in the image. In aligned images, such as
    faces, a fine grid says more.
colour : a colour histogram beside the chain, which sees grey values only. It harms where the colours are
    those of the light and not of the thing.
n_words : a larger codebook helps some sets (gender of unseen people) and harms others (sign_digits).

Likelihood decides rather than a count of errors: it tells settings apart where both make hardly any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.engines import EngineSettings
from midfea.learning.class_weights import Weights
from midfea.learning.codebook import MAX_IMAGES, learn_extractor
from midfea.learning.colour import learn_colour_words, points_of
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.folds import Indices, make_folds
from midfea.learning.head import calibrate, validation_scores
from midfea.learning.settings import COLOURS, FLOORS, PARTITIONS, WORD_COUNTS, ChainSettings
from midfea.pictures.picture import Picture
from midfea.progress import reporting_to, track
from midfea.stages.pooling import Partition


@dataclass(frozen=True)
class ChoiceSettings:
    """How settings are chosen: the candidates, and the size of the trials.

    min_relative_gain : another than the usual setting must lower the loss by at least this share
    colour_gain : the same for the weight of colours, which harms less if it is wrong
    min_loss : losses below this are taken as equal to it
    aligned_gain : if a grid lowers the loss by this share, things lie in the same places in all images
    min_pixels_per_word : pixels there must be to learn a word from, for a larger codebook to be tried
    """

    floors: tuple[float, float] = FLOORS
    partitions: tuple[Partition, Partition] = PARTITIONS
    colours: tuple[float | None, ...] = COLOURS
    word_counts: tuple[int, int] = WORD_COUNTS
    n_images: int = 800
    min_images_per_class: int = 30
    n_words: int = 200
    n_samples: int = 20_000
    n_folds: int = 3
    C: float = 10.0
    min_relative_gain: float = 0.05
    colour_gain: float = 0.02
    min_loss: float = 1e-3
    aligned_gain: float = 0.3
    max_side_for_more_words: int = 64
    max_features: int = 2**29  # numbers in the features of all images: 2 GB
    max_weights: int = 2**24  # numbers in the linear head: 64 MB
    min_pixels_per_word: int = 32


@dataclass(frozen=True)
class Choice:
    """Settings without "auto", and whether the same things lie in the same places of all images."""

    settings: ChainSettings
    in_place: bool


@dataclass(frozen=True, eq=False)
class Trials:
    """The training images and what trials on them need."""

    pictures: Sequence[Picture]
    y: Indices
    groups: Indices | None
    engine: EngineSettings
    n_threads: int
    seed: int
    class_weights: Weights
    rules: ChoiceSettings = ChoiceSettings()

    def choose(self, settings: ChainSettings) -> Choice:
        """Floor, partition, colour: one after the other, with a small codebook on some of the images."""
        rules = self.rules
        values: dict[str, tuple[Any, ...]] = {
            "floor": rules.floors,
            "partition": rules.partitions,
            "colour": rules.colours,
        }
        values = {name: each for name, each in values.items() if getattr(settings, name) == "auto"}
        usual = {name: each[0] for name, each in values.items()}
        chosen = replace(settings.chain_settings(), **usual)
        sample = sample_classes(self.y, self.seed, rules)
        classes, labels = np.unique(self.y[sample], return_inverse=True)
        pictures = [self.pictures[i] for i in sample] if values else []
        if not any(picture.colours for picture in pictures):
            values.pop("colour", None)
        if not values or len(classes) < 2:
            return Choice(chosen, False)
        groups = None if self.groups is None else self.groups[sample]
        folds = make_folds(labels, rules.n_folds, self.seed, groups)

        def loss_with(features: NDArray[np.float32]) -> float:
            with reporting_to(None):  # a step of the model's own has this name
                return self._loss(features, labels, folds, self.class_weights[classes])

        others = [(name, value) for name, each in values.items() for value in each[1:]]
        smallest, in_place, of_chain = np.inf, False, np.empty(0, dtype=np.float32)
        for name, value in track([("", None), *others], "settings", 1 + len(others)):
            tried = replace(chosen, **{name: value}) if name else chosen
            if name == "colour":  # the last: the chain stays as it was chosen
                features = self._with_colour(of_chain, tried, pictures)
            else:
                features = self._features_of_small_chain(tried, pictures)
            loss = loss_with(features)
            least_gain = rules.colour_gain if name == "colour" else rules.min_relative_gain
            if loss < (1 - least_gain) * smallest:
                if name == "partition":
                    in_place = loss < (1 - rules.aligned_gain) * smallest
                if name != "colour":
                    of_chain = features
                smallest, chosen = loss, tried
        return Choice(chosen, in_place)

    def _features_of_small_chain(
        self, settings: ChainSettings, pictures: Sequence[Picture]
    ) -> NDArray[np.float32]:
        small = replace(settings.without_auto(), scales=(1.0,), projection=None)
        small.n_words = min(int(small.n_words), self.rules.n_words)
        small.n_samples = min(small.n_samples, self.rules.n_samples)
        with reporting_to(None):  # its steps have the names of the model's own
            rng = np.random.RandomState(self.seed)
            extractor = learn_extractor(pictures, small, self.engine, self.n_threads, rng)
            return extractor.transform(pictures, self.n_threads)

    def _with_colour(
        self, features: NDArray[np.float32], settings: ChainSettings, pictures: Sequence[Picture]
    ) -> NDArray[np.float32]:
        points, rng = [points_of(picture) for picture in pictures], np.random.RandomState(self.seed)
        return learn_colour_words(points, float(settings.colour or 0), rng).beside(features, pictures)

    def _loss(
        self, features: NDArray[np.float32], labels: Indices, folds: Indices, weights: Weights
    ) -> float:
        """Mean negative log-likelihood of samples by calibrated SVMs trained without them."""
        C = (self.rules.C,)
        scores = validation_scores(features, labels, C, folds, class_weights=weights)[0]
        return max(calibrate(scores, labels, class_weights=weights)[1], self.rules.min_loss)

    def learn(
        self, settings: ChainSettings, rng: np.random.RandomState
    ) -> tuple[FeatureExtractor, NDArray[np.float32]]:
        """The extractor of these settings, and its features of all images.

        Where `n_words` is "auto", a larger codebook if validation favours it clearly.
        """
        start = rng.get_state()

        def with_words(n_words: int) -> tuple[FeatureExtractor, NDArray[np.float32]]:
            rng.set_state(start)
            tried = replace(settings, n_words=n_words)
            extractor = learn_extractor(self.pictures, tried, self.engine, self.n_threads, rng)
            return extractor, extractor.transform(self.pictures, self.n_threads)

        if settings.n_words != "auto":
            return with_words(int(settings.n_words))
        usual, more = self.rules.word_counts
        possible = self.possible_words(settings, usual)
        if possible < usual:
            return with_words(possible)
        extractor, features = with_words(usual)
        if not self.can_try(more, extractor.n_cells, settings.n_samples):
            return extractor, features
        folds = make_folds(self.y, self.rules.n_folds, self.seed, self.groups)
        loss = self._loss(features, self.y, folds, self.class_weights)
        del features  # one of them at a time in memory
        larger, features = with_words(more)
        lower = (1 - self.rules.min_relative_gain) * loss
        if self._loss(features, self.y, folds, self.class_weights) < lower:
            return larger, features
        return extractor, extractor.transform(self.pictures, self.n_threads)

    def possible_words(self, settings: ChainSettings, usual: int) -> int:
        """`usual`, or fewer where a few small images have not so many descriptors."""
        n_images, n_descriptors = min(len(self.pictures), MAX_IMAGES), 0
        for i in range(n_images):
            sides = (max(-(-side // 2) - settings.window + 1, 0) for side in self.pictures[i].shape)
            n_descriptors += min(math.prod(sides), -(-settings.n_samples // n_images))
            if n_descriptors >= usual:
                return usual
        return max(1, n_descriptors // 4)

    def can_try(self, n_words: int, n_cells: int, n_samples: int) -> bool:
        """Whether so many words are worth a trial.

        Images are small, there are enough descriptors to learn the words from, and the features and the
        linear head fit into memory.
        """
        n_features = n_cells * n_words
        if len(self.y) * n_features > self.rules.max_features:
            return False
        if len(np.unique(self.y)) * n_features > self.rules.max_weights:
            return False
        shapes = [self.pictures[i].shape for i in range(min(len(self.y), MAX_IMAGES))]
        n_pixels = sum(height * width for height, width in shapes)
        n_descriptors = min(n_samples, n_pixels // self.rules.min_pixels_per_word)
        median_side = np.median([max(shape) for shape in shapes])
        return bool(median_side < self.rules.max_side_for_more_words and n_descriptors >= n_words)


def sample_classes(y: Indices, seed: int, rules: ChoiceSettings) -> Indices:
    """Which images to choose with: of some classes only, where there are many.

    With few images of each class other settings are best than with as many as there are.
    """
    rng = np.random.RandomState(seed)
    classes = rng.permutation(np.unique(y))
    n_per_class = max(rules.min_images_per_class, -(-rules.n_images // len(classes)))
    parts: list[Indices] = []
    for label in classes:
        if sum(map(len, parts)) < rules.n_images:
            parts.append(rng.permutation(np.flatnonzero(y == label))[:n_per_class])
    return np.sort(np.concatenate(parts))
