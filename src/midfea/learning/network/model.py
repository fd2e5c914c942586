"""The fine-tuned chain: a small network that begins as Section 2's features, run without torch.

image of SIDE x SIDE pixels -> soft convolution, 2x2 maxima, descriptors of WINDOW x WINDOW places (at
every place, or every second one) -> soft codes. Beside them, layers that begin at the pixels and their
colours. Then two linear classifiers: one of the maxima in the cells of a pyramid, of the codes and of
the layer before the last, which knows where in the image things are; one of the means of the last
layer, which can learn from fewer images.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from midfea.arrays import namespace
from midfea.engines import Chain, EngineSettings, PreparedChain
from midfea.learning.codebook import make_chain
from midfea.learning.settings import ChainSettings
from midfea.pictures.picture import NO_COLOUR, Picture
from midfea.pictures.resize import resize

Floats = NDArray[np.float32]
Planes = NDArray[np.float32]  # (1 or 3, SIDE, SIDE): grey, and the colour planes of a picture

SIDE, WINDOW, PIXELS = 64, 4, 5
N_CELLS = 21  # of the pyramid
LAYERS = ("pixels", "colours", "second", "third", "fourth")  # from the pixels on


@dataclass(frozen=True)
class Network:
    """Fitted weights. Layers are matrices (inputs, outputs); inputs of 3x3 places lie together."""

    filters: Floats  # (n_filters, k, k)
    words: Floats  # (n_words, WINDOW^2 * n_filters), of unit length
    bias: Floats  # (n_words,)
    logit_scale: Floats  # (), by which likenesses are multiplied before the softmax
    pixels: Floats  # (PIXELS^2 n_planes, n_pixels)
    pixels_bias: Floats
    colours: Floats  # (9 n_pixels, n_colours)
    colours_bias: Floats
    second: Floats  # (9 n_colours, n_second)
    second_bias: Floats
    third: Floats  # (9 n_second, n_third)
    third_bias: Floats
    fourth: Floats  # (9 n_third, n_fourth)
    fourth_bias: Floats
    weights: Floats  # (n_cells * (n_words + n_third), n_classes)
    intercept: Floats
    whole: Floats  # (n_fourth, n_classes)
    whole_intercept: Floats
    step: NDArray[np.int64]  # (), from one descriptor to the next
    mirror: NDArray[np.bool_]  # (), whether an image and its mirror image are the same thing
    view_shift: NDArray[np.int64]  # (), pixels by which it is also looked at shifted, to two corners
    rounded: NDArray[np.bool_]  # (), whether images are rounded to 8 bits: models of file format 1

    @property
    def chain(self) -> Chain:
        """What an engine needs to describe images."""
        settings = ChainSettings(pairs=False, window=WINDOW)
        return make_chain(settings, self.filters, None, (1.0,))

    @property
    def prepared(self) -> PreparedChain:
        """The chain of the filters, as the fast engine needs it."""
        return EngineSettings().engine.prepare(self.chain)

    @property
    def n_planes(self) -> int:
        """1 if colours do not count, else 3."""
        return len(self.pixels) // PIXELS**2

    def log_probabilities(self, picture: Picture) -> NDArray[np.float64]:
        """Of each classifier and class, (2, n_classes)."""
        square = squares_of(picture, bool(self.rounded))[: self.n_planes]
        return self.log_probabilities_of_square(square, self.prepared)

    def log_probabilities_of_square(
        self, square: Planes, prepared: PreparedChain
    ) -> NDArray[np.float64]:
        """The same of an image as the network sees it."""
        views = self._views(square)
        scores = [self.scores(view, prepared.descriptors(view[0])) for view in views]
        return np.asarray(log_softmax(scores, axis=2).mean(axis=0))

    def _views(self, image: Planes) -> list[Planes]:
        """The image, perhaps shifted, and mirror images; the answer is the mean of theirs."""
        by = int(self.view_shift)
        framed = np.pad(image, ((0, 0), (by, by), (by, by)), mode="reflect")
        views = [framed[:, at : at + SIDE, at : at + SIDE] for at in self.places()]
        if self.mirror:
            views += [view[..., ::-1] for view in views]
        return [np.ascontiguousarray(view) for view in views]

    def places(self) -> list[int]:
        """Where views begin, down and right, in an image that has a frame of `view_shift` pixels."""
        return sorted({0, int(self.view_shift), 2 * int(self.view_shift)})

    def scores(self, image: Planes, descriptors: Floats) -> NDArray[np.float64]:
        """Both classifiers' decision values of one image, from its pixels and all its descriptors."""
        likeness = descriptors[:: int(self.step), :: int(self.step)] @ self.words.T
        codes = softmax(float(self.logit_scale) * likeness + self.bias, axis=2)
        maps = self._path(image)
        features = np.concatenate([_unit(pooled(codes)), _unit(pooled(maps))])
        means = _layer(_shrunk(maps, 2), self.fourth, self.fourth_bias).mean(axis=(0, 1))
        scores = [features @ self.weights + self.intercept, means @ self.whole + self.whole_intercept]
        return np.array(scores, dtype=np.float64)

    def _path(self, image: Planes) -> Floats:
        """From the pixels to the layer before the last."""
        maps = standard(image[None])[0].transpose(1, 2, 0)
        maps = _shrunk(_layer(maps, self.pixels, self.pixels_bias, PIXELS, 2), 2)
        maps = _blurred(_layer(maps, self.colours, self.colours_bias))
        maps = _shrunk(_layer(maps, self.second, self.second_bias), 2)
        return _layer(maps, self.third, self.third_bias)

    @classmethod
    def names(cls) -> list[str]:
        """Of the arrays in a model file."""
        return [field.name for field in fields(cls)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For the model file."""
        return {name: np.asarray(getattr(self, name)) for name in self.names()}

    def expected_shapes(self, n_classes: int) -> dict[str, tuple[int, ...]]:
        """The shapes that the arrays must have to fit together."""
        n_filters, n_words = len(self.filters), len(self.words)
        shapes: dict[str, tuple[int, ...]] = {
            "filters": (n_filters, *self.filters.shape[-1:] * 2),
            "words": (n_words, WINDOW**2 * n_filters),
            "bias": (n_words,),
            "weights": (N_CELLS * (n_words + self.third.shape[-1]), n_classes),
            "intercept": (n_classes,),
            "whole": (self.fourth.shape[-1], n_classes),
            "whole_intercept": (n_classes,),
        }
        n_inputs = PIXELS**2 * (3 if self.n_planes == 3 else 1)
        for name in LAYERS:
            n_outputs = getattr(self, name).shape[-1]
            shapes |= {name: (n_inputs, n_outputs), f"{name}_bias": (n_outputs,)}
            n_inputs = 9 * n_outputs
        return shapes | dict.fromkeys(("logit_scale", "step", "mirror", "view_shift", "rounded"), ())


def squares_of(picture: Picture, rounded: bool = False) -> Planes:
    """A picture as the network sees it, whatever its shape: (3, SIDE, SIDE), grey from 0 to 255."""
    square = np.full((3, SIDE, SIDE), NO_COLOUR, dtype=np.float32)
    grey = resize(picture.grey, (SIDE, SIDE), rounded)
    white = picture.white
    if rounded and grey.dtype != np.uint8:  # format 1 took the brightest pixel of what it saw
        white = max(float(grey.max()), 1e-12)
    square[0] = grey * np.float32(255 / white)
    for plane, colour in zip(square[1:], picture.colours, strict=False):
        plane[:] = resize(colour, (SIDE, SIDE), rounded)
    return np.rint(square).clip(0, 255) if rounded else square


def standard(images: Any) -> Any:
    """Planes (n, 1 or 3, height, width) in the range that the path from the pixels expects."""
    xp = namespace(images)
    return xp.concatenate([(images[:, :1] - 127) / 64, (images[:, 1:] - NO_COLOUR) / 32], axis=1)


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


def _blurred(maps: Floats) -> Floats:
    """Means of 2x2 places: what comes next depends less on a place more or less."""
    four = maps[1:, 1:] + maps[1:, :-1] + maps[:-1, 1:] + maps[:-1, :-1]
    return np.asarray(four / 4, dtype=np.float32)


def _layer(maps: Floats, weights: Floats, bias: Floats, size: int = 3, step: int = 1) -> Floats:
    """size x size places times weights, and what is above zero."""
    frame = size // 2
    framed = np.pad(maps, ((frame, frame), (frame, frame), (0, 0)))
    windows = sliding_window_view(framed, (size, size), axis=(0, 1))[::step, ::step]
    places = windows.transpose(0, 1, 3, 4, 2)
    height, width = places.shape[:2]
    return np.maximum(places.reshape(height * width, -1) @ weights + bias, 0).reshape(height, width, -1)


def _unit(vector: Floats) -> Floats:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
