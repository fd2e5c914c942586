"""`Picture`: an image as a model sees it, in grey and in its colours."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.reading import ImageError, over_white
from midfea.pictures.resize import Grey, fit_within

NO_COLOUR = 128  # in a colour plane
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


def make_picture(pixels: NDArray[Any], max_side: int | None, rounded: bool = False) -> Picture:
    """The picture of pixels (height, width[, 1, 3 or 4]), its longer side at most `max_side` pixels."""
    grey = to_grey(pixels)
    white = 255.0 if grey.dtype == np.uint8 else max(float(grey.max()), 1e-12)
    return Picture(grey, tuple(colour_planes(pixels)), white).within(max_side, rounded)


def to_grey(pixels: NDArray[Any]) -> Grey:
    """Luminance (height, width): uint8 stays uint8, anything else becomes float32."""
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float32)
        if not np.isfinite(pixels).all():
            raise ImageError(
                "contains NaN or infinity: replace the missing pixels, or leave the image out"
            )
    if pixels.ndim == 2:
        return pixels
    if pixels.shape[2] == 1:
        return pixels[:, :, 0]
    if pixels.dtype == np.uint8:
        pixels = over_white(pixels) if pixels.shape[2] == 4 else pixels
        weighted = pixels.astype(np.uint32) @ np.array(LUMINANCE, dtype=np.uint32)
        return ((weighted + 0x8000) >> 16).astype(np.uint8)
    return pixels[:, :, :3] @ np.array([0.299, 0.587, 0.114], dtype=np.float32)


def colour_planes(pixels: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Red against green and yellow against blue, (height, width) each, `NO_COLOUR` for neither.

    Nothing for grey pixels, and for floats, whose unit is not known.
    """
    if pixels.dtype != np.uint8 or pixels.ndim == 2 or pixels.shape[2] == 1:
        return []
    if pixels.shape[2] == 4:
        pixels = over_white(pixels)
    red, green, blue = pixels.astype(np.int16).transpose(2, 0, 1)
    if (red == green).all() and (green == blue).all():
        return []
    return [
        (NO_COLOUR + (values + half) // whole).clip(0, 255).astype(np.uint8)
        for values, half, whole in ((red - green, 1, 2), (red + green - 2 * blue, 2, 4))
    ]
