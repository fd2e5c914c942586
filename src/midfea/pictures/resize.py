"""Images in other sizes: one definition for every engine, for export and for explanations.

Export builds the same weights from ONNX operators, because sizes are known only when an image comes.

A new pixel is the weighted mean of the old pixels near its place. The weights fall off as a triangle, as
wide as one new pixel on each side (one old pixel where the image grows), so that nothing aliases:

    resized = weights(height) @ image @ weights(width).T

Results are float32 and are not rounded to whole numbers: a dark photograph keeps the few grey values it
has. Models of file format 1 were trained on rounded pixels, and keep them (`rounded`).
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Grey = NDArray[np.uint8] | NDArray[np.float32]

PIXELS_AT_ONCE = 2**20  # of the source image in float64
ROUNDED_UNIT = 2.0**22  # weights of rounded resizing are whole numbers of 1 / ROUNDED_UNIT


def fit_within(image: Grey, max_side: int | None, rounded: bool = False) -> Grey:
    """The image itself, or a smaller one whose longer side is `max_side` pixels."""
    longest = max(image.shape)
    if max_side is None or longest <= max_side:
        return image
    return resize(image, scaled_shape(image.shape, max_side / longest), rounded)


def scaled_shape(shape: tuple[int, ...], factor: float) -> tuple[int, int]:
    """Height and width times a factor, in whole pixels."""
    height, width = (max(1, round(side * factor)) for side in shape)
    return height, width


def resize(image: Grey, shape: tuple[int, int], rounded: bool = False) -> Grey:
    """The image (height, width) at another `shape`; float32, or uint8 as it is if nothing changes.

    rounded : round 8-bit images to 8 bits after each direction, the width first
    """
    if image.shape == shape:
        return image
    if rounded and image.dtype == np.uint8:
        return _resize_rounded(image, shape)
    rows = weights(image.shape[0], shape[0])
    columns = weights(image.shape[1], shape[1])
    resized = np.empty(shape, dtype=np.float32)
    n_blocks = -(-image.size // PIXELS_AT_ONCE)
    edges = [shape[0] * i // n_blocks for i in range(n_blocks + 1)]
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            part = rows[start:stop] if n_blocks > 1 else rows
            top, bottom = int(part.indices.min()), int(part.indices.max()) + 1
            source = image[top:bottom].astype(np.float64)
            resized[start:stop] = (columns @ (part[:, top:bottom] @ source).T).T
    return resized


@lru_cache(maxsize=256)
def weights(before: int, after: int) -> sp.csr_array:
    """The weight of each old pixel in each new one along one axis, (after, before); rows sum to one."""
    scale = before / after
    reach = max(scale, 1.0)
    centres = (np.arange(after) + 0.5) * scale
    first = np.maximum(np.floor(centres - reach), 0).astype(np.int64)
    places = first[:, None] + np.arange(int(2 * reach) + 2)
    triangle = np.maximum(1 - np.abs(places + 0.5 - centres[:, None]) / reach, 0)
    triangle[places >= before] = 0
    triangle /= triangle.sum(axis=1, keepdims=True)
    used = triangle > 0
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return sp.csr_array((triangle[used], places[used], starts), shape=(after, before))


def _resize_rounded(image: Grey, shape: tuple[int, int]) -> NDArray[np.uint8]:
    pixels = image.astype(np.float64)
    pixels = _rounded(_whole_weights(image.shape[1], shape[1]) @ pixels.T).T
    return _rounded(_whole_weights(image.shape[0], shape[0]) @ pixels).astype(np.uint8)


def _whole_weights(before: int, after: int) -> Any:
    exact = weights(before, after)
    whole = np.floor(exact.data * ROUNDED_UNIT + 0.5)
    return sp.csr_array((whole, exact.indices, exact.indptr), shape=exact.shape)


def _rounded(sums: Any) -> Any:
    return np.floor((sums + ROUNDED_UNIT / 2) / ROUNDED_UNIT).clip(0, 255)
