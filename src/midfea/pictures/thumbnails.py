"""Thumbnails of images, as files, for pages that show many of them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 72  # pixels of the longer side
QUALITY = 70


def thumbnail(pixels: NDArray[Any], side: int = SIDE) -> bytes:
    """A WebP file of the image (height, width[, 3]), its longer side at most `side` pixels."""
    image = Image.fromarray(eight_bits(pixels))
    image.thumbnail((side, side), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.convert("RGB").save(file, "WEBP", quality=QUALITY)
    return file.getvalue()


def eight_bits(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """uint8 as it is; anything else spread over 0 .. 255."""
    if pixels.dtype == np.uint8:
        return pixels
    low, high = float(pixels.min()), float(pixels.max())
    scale = 255 / max(high - low, 1e-12)
    return np.asarray((pixels * scale - low * scale).astype(np.uint8))
