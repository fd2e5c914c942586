"""From descriptors to the pixels they see. Every step shares out and loses nothing: sums are kept.

A descriptor holds a window of pooled places, each the maximum of 2x2 places of the soft convolution's
maps, each of which has looked at a filter's size of pixels. Not all of these pixels have the same say:
flat places are zero in the maps, and a filter answers to contrast, not to grey. So shares go by energy:
to the places of a window by their squared responses, to the pixels of a patch by the squares of what
they put into the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea import stages
from midfea.engines import Chain
from midfea.pictures.resize import Grey, weights
from midfea.stages.pooling import STRIDE

Floats = NDArray[np.float64]


def to_pixels(by_descriptor: Floats, scaled: Grey, chain: Chain, shape: tuple[int, ...]) -> Floats:
    """Contributions of one scale's descriptors as a map of the whole image, (height, width).

    scaled : the image at that scale
    shape : of the image itself
    """
    maps = stages.soft_convolution(
        scaled, chain.filters, chain.padding, rectify=chain.rectify, floor=chain.floor
    ).astype(np.float64)
    responses = stages.convolve(scaled, chain.filters, chain.padding).astype(np.float64)
    strength = np.where(maps.any(axis=-1), np.square(responses).sum(axis=-1), 0.0)
    places = to_places(by_descriptor, strength, chain.window)
    pixels = to_patches(places, scaled, np.square(maps), chain)
    return to_shape(pixels, shape)


def to_shape(pixels: Floats, shape: tuple[int, ...]) -> Floats:
    """Contributions of a resized image's pixels as a map of the image itself, of that shape."""
    rows, columns = (weights(whole, small) for small, whole in zip(pixels.shape, shape, strict=True))
    return np.asarray((columns.T @ (rows.T @ pixels).T).T)


def to_places(by_descriptor: Floats, strength: Floats, window: int) -> Floats:
    """Each descriptor's share goes to the places of the maps in its window, by their strength."""
    height, width = by_descriptor.shape
    shape = tuple(STRIDE * (side + window - 1) for side in by_descriptor.shape)
    inside = np.s_[: strength.shape[0], : strength.shape[1]]  # an odd side's last place has no partner
    weights, ones, target = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    weights[inside], ones[inside] = strength, 1.0

    def parts(array: Floats) -> list[Floats]:
        side = range(STRIDE * window)
        ends = STRIDE * height, STRIDE * width
        return [array[y : y + ends[0] : STRIDE, x : x + ends[1] : STRIDE] for y in side for x in side]

    _share_out(by_descriptor, lambda: parts(weights), parts(ones), parts(target))
    return target[inside]


def to_patches(places: Floats, scaled: Grey, energy: Floats, chain: Chain) -> Floats:
    """Each place's share goes to the pixels of its patch.

    A pixel adds filter x (pixel - mean of the patch) to a response; its weight is the square of that,
    over the filters by their `energy` (height, width, n_filters) in the maps.
    """
    height, width = places.shape
    size = chain.filters.shape[1:]
    margins = [((k - 1) // 2, k // 2) if chain.padding == "same" else (0, 0) for k in size]
    framed = np.pad(np.asarray(scaled, dtype=np.float64), margins, mode="symmetric")
    squares = np.square(chain.filters, dtype=np.float64)

    def parts(array: Floats) -> list[Floats]:
        return [array[y : y + height, x : x + width] for y in range(size[0]) for x in range(size[1])]

    seen, pixels = parts(framed), np.zeros(framed.shape)
    mean = sum(seen) / len(seen)
    by_filters = squares.reshape(len(squares), -1).T

    def weights() -> Iterable[Floats]:
        return ((energy @ row) * (part - mean) ** 2 for row, part in zip(by_filters, seen, strict=True))

    _share_out(places, weights, parts(np.ones(framed.shape)), parts(pixels))
    return _fold(_fold(pixels, margins[0]).T, margins[1]).T


def _share_out(
    amounts: Floats,
    weights: Callable[[], Iterable[Floats]],
    evens: Sequence[Floats],
    targets: Sequence[Floats],
) -> None:
    """Add to each of the targets the amounts' portion by its weights, which are made one by one.

    Where all weights are zero, the flatness itself is what was seen: the portions are then even.
    """
    total: Any = sum(weights())
    number: Any = sum(evens)
    flat = total <= 0
    weighted = np.where(flat, 0.0, amounts / np.where(flat, 1.0, total))
    even = np.where(flat, amounts / number, 0.0)
    for target, weight, present in zip(targets, weights(), evens, strict=True):
        target += weighted * weight + even * present


def _fold(pixels: Floats, margins: tuple[int, int]) -> Floats:
    """The mirrored rows at both borders, back onto the rows that they mirror."""
    before, after = margins
    stop = len(pixels) - after
    whole = pixels[before:stop].copy()
    whole[:before] += pixels[:before][::-1]
    whole[len(whole) - after :] += pixels[stop:][::-1]
    return whole


def seen_box(place: Any, scaled: Grey, chain: Chain, shape: tuple[int, ...]) -> list[int]:
    """What a descriptor at `place` sees: y0, x0, y1, x1 in the image's pixels, half-open."""
    bounds = []
    for at, k, small, whole in zip(place, chain.filters.shape[1:], scaled.shape, shape, strict=True):
        before = (k - 1) // 2 if chain.padding == "same" else 0
        start = max(STRIDE * at - before, 0)
        stop = min(STRIDE * (at + chain.window) + k - 1 - before, small)
        bounds.append((start * whole // small, -(-stop * whole // small)))
    (y0, y1), (x0, x1) = bounds
    return [y0, x0, y1, x1]
