"""`ColourWords`: the colour histogram that stands beside the chain's features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.parallel import linear_algebra_threads
from midfea.pictures.picture import NO_COLOUR, Picture
from midfea.pictures.resize import fit_within, weights
from midfea.stages.colour import Floats, Level, colour_histogram, colour_points
from midfea.stages.kmeans import kmeans

LEVELS = (1, 2, 4)  # cells in a row
N_CELLS = sum(n * n for n in LEVELS)
MAX_SIDE = 32  # pixels of the reduced picture
N_WORDS = 64
N_POINTS_PER_IMAGE = 100  # from which words are learned
MIN_BANDWIDTH = 1.0  # below it are the steps of 8-bit colours


@dataclass(frozen=True, eq=False)
class ColourWords:
    """Fitted: what turns a picture into a colour histogram, and how much that counts.

    Attributes
    ----------
    words : typical colours, (n_words, 3), see `midfea.stages.colour_points`
    bandwidth : see `midfea.stages.colour_codes`
    weight : share of the histogram in a feature vector, whose length stays one
    """

    words: NDArray[np.float32]
    bandwidth: float
    weight: float

    @property
    def n_features(self) -> int:
        """Numbers in a histogram."""
        return N_CELLS * len(self.words)

    @property
    def factors(self) -> tuple[float, float]:
        """Of the chain's features and of the histogram."""
        return math.sqrt(1 - self.weight**2), self.weight

    def histogram(self, picture: Picture) -> NDArray[np.float32]:
        """The colour histogram of a picture, (n_features,), at unit length."""
        points = points_of(picture)
        return colour_histogram(points, self.words, self.bandwidth, levels_of(points.shape))

    def beside(
        self, features_of_chain: NDArray[np.float32], pictures: Sequence[Picture]
    ) -> NDArray[np.float32]:
        """Features of pictures, if those of the chain are known."""
        histograms = np.stack([self.histogram(picture) for picture in pictures])
        features = np.concatenate([features_of_chain, histograms], axis=1)
        self.join(features, histograms)
        return features

    def join(self, features: NDArray[np.float32], histograms: NDArray[np.float32]) -> None:
        """Into rows that begin with the chain's features: these and the histograms by their factors."""
        n_chain = features.shape[1] - self.n_features
        of_chain, of_colour = self.factors
        features[:, :n_chain] *= of_chain
        np.multiply(histograms, of_colour, out=features[:, n_chain:])


class ColourNotes(Sequence[Picture]):
    """Pictures whose histograms are noted when they are looked at: each is read once."""

    def __init__(self, pictures: Sequence[Picture], colour: ColourWords) -> None:
        self.histograms = np.empty((len(pictures), colour.n_features), dtype=np.float32)
        self._pictures, self._colour = pictures, colour

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        picture = self._pictures[index]
        self.histograms[index] = self._colour.histogram(picture)
        return picture


def points_of(picture: Picture) -> Floats:
    """The colours of the reduced picture, (height, width, 3)."""
    grey, *planes = (fit_within(plane, MAX_SIDE) for plane in (picture.grey, *picture.colours))
    eight_bits = (grey * (255.0 / picture.white)).clip(0, 255)
    planes = planes or [np.full(grey.shape, NO_COLOUR, dtype=np.float32)] * 2
    return colour_points(eight_bits, *planes)


def levels_of(shape: tuple[int, ...]) -> list[Level]:
    """The weights of a reduced picture's rows and columns in the cells: those of resizing it."""
    return [(weights(shape[0], n), weights(shape[1], n)) for n in LEVELS]


def learn_colour_words(
    points_of_pictures: Sequence[Floats], weight: float, rng: np.random.RandomState
) -> ColourWords:
    """Words by k-means on random points of each picture; the bandwidth is their mean squared error."""
    flat = [points.reshape(-1, 3) for points in points_of_pictures]
    samples = np.concatenate([part[rng.permutation(len(part))[:N_POINTS_PER_IMAGE]] for part in flat])
    samples = samples.astype(np.float32)
    with linear_algebra_threads(1):  # the same words for any number of threads
        words = kmeans(samples, min(N_WORDS, len(samples)), random_state=rng)
        products = samples @ words.T - np.square(words).sum(axis=1) / 2
    errors = np.square(samples).sum(axis=1) - 2 * products.max(axis=1)
    return ColourWords(words, max(float(errors.mean(dtype=np.float64)), MIN_BANDWIDTH), weight)
