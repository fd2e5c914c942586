"""`Picture`: an image as a model sees it, in grey and in its colours."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.decoding import blocks_of_rows, over_white
from midfea.pictures.limits import ImageError
from midfea.pictures.resize import Grey, fit_within

NO_COLOUR = 128  # in a colour plane
MAX_VALUE = 1e30  # of a pixel; missing pixels are often marked by 3.4e38, the largest float32
LUMINANCE = (19595, 38470, 7471)  # ITU-R 601 in units of 2^-16, as Pillow uses them


@dataclass(frozen=True, eq=False)
class Picture:
    """Grey pixels (height, width), and what is needed of the colours.

    Attributes
    ----------
    grey : uint8 or float32
    colours : red against green and yellow against blue, like `grey`; empty for a grey image
    white : the value of a white pixel in `grey`
    """

    grey: Grey
    colours: tuple[Grey, ...] = ()
    white: float = 255.0

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.grey.shape[0], self.grey.shape[1]

    @property
    def n_bytes(self) -> int:
        """Of all planes."""
        return sum(plane.nbytes for plane in (self.grey, *self.colours))

    def within(self, max_side: int | None, rounded: bool = False) -> Picture:
        """The picture with its longer side at most `max_side` pixels."""
        if max_side is None or max(self.shape) <= max_side:
            return self
        colours = tuple(fit_within(plane, max_side, rounded) for plane in self.colours)
        return Picture(fit_within(self.grey, max_side, rounded), colours, self.white)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.grey, dtype=dtype, copy=copy)

    def digest(self) -> bytes:
        """Equal for pictures with equal pixels."""
        content = hashlib.blake2b(digest_size=16)
        for plane in (self.grey, *self.colours):
            content.update(f"{plane.dtype}{plane.shape}".encode())
            content.update(np.ascontiguousarray(plane).data)
        return content.digest()


def make_picture(
    pixels: NDArray[Any], max_side: int | None, rounded: bool = False, coloured: bool = True
) -> Picture:
    """The picture of pixels (height, width[, 1, 3 or 4]), its longer side at most `max_side` pixels.

    coloured : without colours it takes two thirds of the time and a third of the bytes
    """
    grey = to_grey(pixels)
    white = 255.0 if grey.dtype == np.uint8 else max(float(grey.max()), 1e-12)
    colours = tuple(colour_planes(pixels)) if coloured else ()
    return Picture(grey, colours, white).within(max_side, rounded)


def to_grey(pixels: NDArray[Any]) -> Grey:
    """Luminance (height, width): uint8 stays uint8, anything else is float32 (`brought_to_range`)."""
    if pixels.dtype != np.uint8:
        pixels = brought_to_range(_opaque(pixels))
    if pixels.ndim == 2:
        return pixels
    if pixels.shape[2] == 1:
        return pixels[:, :, 0]
    if pixels.dtype != np.uint8:
        return pixels @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    grey = np.empty(pixels.shape[:2], dtype=np.uint8)
    for rows in blocks_of_rows(pixels.shape):
        weighted = _opaque(pixels[rows]).astype(np.uint32) @ np.array(LUMINANCE, dtype=np.uint32)
        grey[rows] = (weighted + 0x8000) >> 16
    return grey


def brought_to_range(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of any unit as float32, the largest of size 2^-20 to 2^20; ImageError if that cannot be.

    Numbers already in that range stay as they are; others are multiplied by a power of two, which loses
    no digits. Features do not depend on the unit.
    """
    largest = float(np.abs(pixels, dtype=np.float64).max()) if pixels.size else 0.0
    if not largest < MAX_VALUE:  # also if one is not a number
        what = f"a number beyond {MAX_VALUE:g}" if math.isfinite(largest) else "NaN or infinity"
        raise ImageError(f"contains {what}: replace the missing pixels, or leave the image out")
    exponent = math.frexp(largest)[1]  # 2^(exponent - 1) <= largest < 2^exponent
    if largest == 0 or -20 < exponent <= 20:
        return pixels.astype(np.float32)
    return np.ldexp(pixels.astype(np.float64), 8 - exponent).astype(np.float32)


def colour_planes(pixels: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Red against green and yellow against blue, (height, width) each, `NO_COLOUR` for neither.

    Nothing for grey pixels, and for floats, whose unit is not known.
    """
    if pixels.dtype != np.uint8 or pixels.ndim == 2 or pixels.shape[2] == 1:
        return []
    planes = [np.empty(pixels.shape[:2], dtype=np.uint8) for _ in range(2)]
    coloured = False
    for rows in blocks_of_rows(pixels.shape):
        red, green, blue = _opaque(pixels[rows]).astype(np.int16).transpose(2, 0, 1)
        coloured = coloured or bool((red != green).any() or (green != blue).any())
        planes[0][rows] = (NO_COLOUR + (red - green + 1) // 2).clip(0, 255)
        planes[1][rows] = (NO_COLOUR + (red + green - 2 * blue + 2) // 4).clip(0, 255)
    return planes if coloured else []


def _opaque(pixels: NDArray[Any]) -> NDArray[Any]:
    """RGBA pixels laid over white, (height, width, 3); others as they are."""
    if pixels.ndim == 2 or pixels.shape[2] != 4:
        return pixels
    if pixels.dtype == np.uint8:
        return over_white(pixels)
    white = _white_level(pixels)
    opacity = pixels[:, :, 3:] / white
    return np.asarray(pixels[:, :, :3] * opacity + white * (1 - opacity))


def _white_level(pixels: NDArray[Any]) -> float:
    """White, and full opacity, in the unit of these pixels: the least usual one that holds them all."""
    if pixels.dtype.kind == "u":
        return float(np.iinfo(pixels.dtype).max)
    largest = float(np.abs(pixels, dtype=np.float64).max())
    return next((white for white in (1.0, 255.0, 65535.0) if largest <= white), largest)
