"""Evidence as colours over the grey image: orange for the class, blue against it.

The two are told apart by people who are colour-blind (Okabe and Ito's vermilion and blue).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from midfea.evidence.linear import Floats
from midfea.pictures.thumbnails import eight_bits

FOR, AGAINST = (213, 94, 0), (0, 114, 178)
BLUR = 1.5  # pixels: single pixels cannot be seen, and a descriptor sees many
CURVE = 0.6  # below 1, weak evidence stays visible


def blurred(evidence: Floats) -> Floats:
    """The evidence as it is drawn; the sum stays the same."""
    return np.asarray(gaussian_filter(evidence, BLUR))


def strongest(evidence: Floats) -> float:
    """The evidence of a pixel, as drawn, that gets the full colour."""
    return max(float(np.quantile(np.abs(blurred(evidence)), 0.995)), 1e-12)


def overlay(image: NDArray[Any], evidence: Floats) -> NDArray[np.uint8]:
    """(height, width, 3): the image in pale grey, coloured where evidence lies."""
    pale = 70.0 + 185 / 255 * eight_bits(image)[..., None]
    drawn = blurred(evidence)[..., None] / strongest(evidence)
    cover = 0.9 * np.minimum(np.abs(drawn), 1) ** CURVE
    colour = np.where(drawn > 0, FOR, AGAINST)
    return np.asarray(np.rint(pale * (1 - cover) + colour * cover).astype(np.uint8))


def crop(image: NDArray[Any], box: NDArray[np.int64], margin: int = 4) -> NDArray[Any]:
    """The part of an image in a box, with some pixels around it."""
    y0, x0, y1, x1 = (int(value) for value in box)
    return image[max(y0 - margin, 0) : y1 + margin, max(x0 - margin, 0) : x1 + margin]
