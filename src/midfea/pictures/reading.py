"""Image files to pixels. Pillow decodes; nothing else of it is used on the way to the features."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps


class ImageError(ValueError):
    """An image that cannot be used; the message says which one and why."""


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Pixels of a file, (height, width) or (height, width, 3), uint8 (float32 if it holds more).

    Palettes are resolved, transparency is laid over white, the camera's orientation is applied.
    """
    try:
        with Image.open(path) as file:
            image: Image.Image = ImageOps.exif_transpose(file)
            if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits per pixel
                return np.asarray(image).astype(np.float32)
            if image.mode in ("1", "L"):
                return np.asarray(image.convert("L"))
            if image.has_transparency_data:
                return over_white(np.asarray(image.convert("RGBA")))
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError:
        raise ImageError(f"{path}: no such file") from None
    except Exception as error:  # Pillow raises many kinds on damaged files
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ImageError(f"{path}: not a readable image ({reason})") from None


def over_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """RGBA pixels (height, width, 4) laid over white: (height, width, 3)."""
    image = Image.fromarray(pixels, "RGBA")
    white = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(white, image).convert("RGB"))
