"""The fine-tuned chain: a small network that begins as Section 2's features, run without torch.

image of SIDE x SIDE pixels -> soft convolution, 2x2 maxima, descriptors of WINDOW x WINDOW places (at
every second place) -> soft codes -> a second and a third layer over the maps of codes -> maxima in the
cells of a pyramid, of the codes and of the third layer -> a linear classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from midfea.engines.chain import Chain
from midfea.images import Grey, resize

Floats = NDArray[np.float32]

SIDE, WINDOW, STEP = 64, 4, 2
N_CELLS = 21  # of the pyramid


@dataclass(frozen=True)
class Network:
    """Fitted weights. Layers are matrices (inputs, outputs); inputs of 3x3 places lie together."""

    filters: Floats  # (n_filters, k, k)
    words: Floats  # (n_words, WINDOW^2 * n_filters), of unit length
    bias: Floats  # (n_words,)
    temperature: Floats  # (), by which likenesses are multiplied before the softmax
    neck: Floats  # (n_words, n_neck)
    second: Floats  # (9 n_neck, n_second)
    second_bias: Floats
    third: Floats  # (9 n_second, n_third)
    third_bias: Floats
    weights: Floats  # (n_cells * (n_words + n_third), n_classes)
    intercept: Floats
    mirror: NDArray[np.bool_]  # (), whether an image and its mirror image are the same thing

    @cached_property
    def chain(self) -> Chain:
        """What an engine needs to describe images."""
        return Chain(self.filters, padding="same", pairs=False, window=WINDOW)

    def log_probabilities(
        self, greys: Iterable[Grey], describe: Callable[[Grey, Chain], Floats]
    ) -> NDArray[np.float64]:
        """Of each class, (n, n_classes); `describe` is an engine's."""
        return np.stack([self._of_image(square(grey), describe) for grey in greys])

    def _of_image(self, image: Grey, describe: Callable[[Grey, Chain], Floats]) -> NDArray[np.float64]:
        views: list[Any] = [image, np.ascontiguousarray(image[:, ::-1])] if self.mirror else [image]
        scores = [self.scores(describe(view, self.chain)) for view in views]
        return np.mean([log_softmax(each) for each in scores], axis=0)

    def scores(self, descriptors: Floats) -> NDArray[np.float64]:
        """Decision values of one image, from all its descriptors."""
        likeness = descriptors[::STEP, ::STEP] @ self.words.T
        codes = softmax(float(self.temperature) * likeness + self.bias, axis=2)
        maps = (codes / np.sqrt(np.square(codes).sum(axis=2).mean() + 1e-9)) @ self.neck
        maps = _layer(maps, self.second, self.second_bias)
        maps = _layer(_shrunk(maps, 2), self.third, self.third_bias)
        features = np.concatenate([_unit(pooled(codes)), _unit(pooled(maps))])
        return np.asarray(features @ self.weights + self.intercept, dtype=np.float64)

    @classmethod
    def names(cls) -> list[str]:
        """Of the arrays in a model file."""
        return [field.name for field in fields(cls)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For the model file."""
        return {name: np.asarray(getattr(self, name)) for name in self.names()}

    def expected_shapes(self, n_classes: int) -> dict[str, tuple[int, ...]]:
        """The shapes that the arrays must have to fit together."""
        n_filters, n_words, n_neck = len(self.filters), len(self.words), self.neck.shape[-1]
        n_second, n_third = self.second.shape[-1], self.third.shape[-1]
        return {
            "filters": (n_filters, *self.filters.shape[-1:] * 2),
            "words": (n_words, WINDOW**2 * n_filters),
            "bias": (n_words,),
            "temperature": (),
            "neck": (n_words, n_neck),
            "second": (9 * n_neck, n_second),
            "second_bias": (n_second,),
            "third": (9 * n_second, n_third),
            "third_bias": (n_third,),
            "weights": (N_CELLS * (n_words + n_third), n_classes),
            "intercept": (n_classes,),
            "mirror": (),
        }


def square(grey: Grey) -> Grey:
    """The image as the network sees it, whatever its shape was."""
    return resize(grey, (SIDE, SIDE))


def pooled(maps: Floats) -> Floats:
    """The largest value of each map in the cells of a 1-2-4 pyramid, in one row; maps not below zero.

    A cell of the last row or column may be smaller than the others.
    """
    fine = _shrunk(maps, -(-maps.shape[0] // 4))
    coarse = _shrunk(fine, 2)
    return np.concatenate([_shrunk(coarse, 2).ravel(), coarse.ravel(), fine.ravel()])


def _shrunk(maps: Floats, factor: int) -> Floats:
    """The largest of factor x factor places; maps not below zero."""
    height, width = (-(-side // factor) for side in maps.shape[:2])
    whole = np.zeros((height * factor, width * factor, maps.shape[2]), dtype=maps.dtype)
    whole[: maps.shape[0], : maps.shape[1]] = maps
    return whole.reshape(height, factor, width, factor, -1).max(axis=(1, 3))


def _layer(maps: Floats, weights: Floats, bias: Floats) -> Floats:
    """3x3 places times weights, and what is above zero."""
    height, width = maps.shape[:2]
    framed = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
    places = sliding_window_view(framed, (3, 3), axis=(0, 1)).transpose(0, 1, 3, 4, 2)
    return np.maximum(places.reshape(height * width, -1) @ weights + bias, 0).reshape(height, width, -1)


def _unit(vector: Floats) -> Floats:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
