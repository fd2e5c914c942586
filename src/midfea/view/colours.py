"""Maps in colour: which filter or word is where, and evidence over an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor
from scipy.ndimage import gaussian_filter

from midfea.pictures.thumbnails import eight_bits
from midfea.view.style import COLOURS

Floats = NDArray[np.float64]
GOLDEN_RATIO = 0.6180339887  # hues in steps of this size around the circle stay well apart
FOR, AGAINST = (ImageColor.getrgb(COLOURS[i])[:3] for i in (1, 0))  # vermilion, blue
BLUR_PIXELS = 1.5  # single pixels cannot be seen, and a descriptor covers many
EVIDENCE_EXPONENT = 0.6  # below 1, weak evidence stays visible
MAX_COVER = 0.9  # of the image by colour, at the strongest evidence


def hues(numbers: NDArray[np.integer[Any]]) -> Floats:
    """A hue in 0 .. 1 for each number, so that neighbouring numbers differ well."""
    return np.mod(numbers * GOLDEN_RATIO, 1.0)


def numbers_in_colour(numbers: NDArray[np.integer[Any]], strength: NDArray[Any]) -> NDArray[np.uint8]:
    """A map (height, width, 3) whose hue says which number it is, and whose brightness how much."""
    value = np.clip(strength / max(float(strength.max()), 1e-12), 0, 1) ** 0.7
    return rgb(hues(numbers), 0.6, value)


def rgb(hue: Floats, saturation: float, value: Floats | float) -> NDArray[np.uint8]:
    """Colours (..., 3) of hue, saturation and value, each 0 .. 1."""
    planes = np.stack(np.broadcast_arrays(hue, saturation, value), axis=-1)
    row = Image.fromarray((255 * planes).astype(np.uint8).reshape(1, -1, 3), "HSV")
    return np.asarray(row.convert("RGB")).reshape(planes.shape)


def stage_drawings(maps: dict[str, NDArray[Any]]) -> list[tuple[str, NDArray[Any]]]:
    """Outputs of the stages, as `feature_maps` returns them, with their names.

    A hue stands for a filter or a word.
    """
    convolved, pooled = maps["soft_convolution"], maps["max_pool_3d"]
    energy = np.linalg.norm(maps["descriptors"], axis=-1)  # zero in flat places
    return [
        ("filter responses", np.linalg.norm(maps["convolution"], axis=-1)),
        ("soft convolution", numbers_in_colour(convolved.argmax(axis=-1), convolved.max(axis=-1))),
        ("3D max pooling", numbers_in_colour(pooled.argmax(axis=-1), pooled.max(axis=-1))),
        ("nearest words", numbers_in_colour(maps["words"], energy)),
    ]


def overlay(image: NDArray[Any], evidence: Floats) -> NDArray[np.uint8]:
    """(height, width, 3): the image in pale grey; orange is evidence for the class, blue against it."""
    pale = 70 + 185 / 255 * eight_bits(image)[..., None].astype(np.float64)
    drawn = gaussian_filter(evidence, BLUR_PIXELS)[..., None]  # the sum stays the same
    strongest = max(float(np.quantile(np.abs(drawn), 0.995)), 1e-12)
    return np.rint(evidence_colours(drawn / strongest, pale)).astype(np.uint8)


def evidence_colours(strength: Floats, ground: Floats | float) -> Floats:
    """Colours (..., 3) of evidence (..., 1), -1 to 1, over a grey ground."""
    cover = MAX_COVER * np.minimum(np.abs(strength), 1) ** EVIDENCE_EXPONENT
    return np.asarray(ground * (1 - cover) + np.where(strength > 0, FOR, AGAINST) * cover)


def crop(image: NDArray[Any], box: NDArray[np.int64], margin: int = 4) -> NDArray[Any]:
    """The part of an image in a box, with some pixels around it."""
    y0, x0, y1, x1 = (int(value) for value in box)
    return image[max(y0 - margin, 0) : y1 + margin, max(x0 - margin, 0) : x1 + margin]
