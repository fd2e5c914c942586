"""The content of an image file to pixels, by Pillow. `reading` is the door that calls it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.TiffImagePlugin import IMAGELENGTH, IMAGEWIDTH, TiffImageFile

from midfea.pictures.formats import HEIC
from midfea.pictures.limits import ImageError, ImageLimits

ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # Exif: the camera was held upright
EXIF_OF_PHOTO, TIME_TAKEN = 0x8769, 0x9003  # Exif: a table inside the table, and an entry there
PIXELS_AT_ONCE = 2**20  # of a large image, so that no second one of its size is in memory

# Pillow takes memory in blocks. Large ones go back to the system as soon as an image is done with.
Image.core.set_block_size(64 << 20)


class Header(NamedTuple):
    """What an image file says about itself: Pillow's name of the format, and the size to be seen."""

    format: str
    width: int
    height: int


class ImageFile:
    """An image file whose header was read; ImageError if it is of another format, or too large."""

    def __init__(self, content: bytes, formats: tuple[str, ...], limits: ImageLimits) -> None:
        with _explained():
            if formats == HEIC:
                _let_pillow_read_heic()
            try:
                self._image: Image.Image = Image.open(io.BytesIO(content), formats=formats)
            except (Image.DecompressionBombError, Image.DecompressionBombWarning):
                raise limits.too_many_pixels("hundreds of millions of") from None
            limits.check_pixels(*self._image.size)
            if self._image.format in ("JPEG", "MPO"):
                # Within a scan the two bytes never stand together: this counts all scans, or more.
                limits.check_scans(content.count(b"\xff\xda"), self.n_pixels)

    @property
    def n_pixels(self) -> int:
        """Width times height."""
        return self._image.width * self._image.height

    def header(self) -> Header:
        """Format and size, without decoding."""
        with _explained():
            image = self._image
            # A PNG file may hold this behind its pixels: then asking would decode them.
            known = image.format != "PNG" or "exif" in image.info
            turned = known and image.getexif().get(ORIENTATION) in TURNED
            size = image.size
            if isinstance(image, TiffImageFile):  # of which some versions of Pillow turn the size
                size = image.tag_v2[IMAGEWIDTH], image.tag_v2[IMAGELENGTH]
            width, height = size[::-1] if turned else size
            return Header(str(image.format), width, height)

    def time_taken(self) -> str:
        """When the photo was taken, as the camera wrote it; empty if it is not known."""
        with _explained():
            if self._image.format == "PNG" and "exif" not in self._image.info:  # as in `header`
                return ""
            taken = self._image.getexif().get_ifd(EXIF_OF_PHOTO).get(TIME_TAKEN)
            return taken if isinstance(taken, str) else ""

    def pixels(self) -> NDArray[Any]:
        """Pixels (height, width[, 3]), uint8, or float32 if the file holds more; to be asked for once.

        Palettes are resolved, transparency is laid over white, the camera's orientation is applied.
        """
        with _explained(), self._image as image:
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            blocks = blocks_of_rows((image.height, image.width))
            if len(blocks) == 1:
                return _converted(image)
            first = _converted(image.crop((0, 0, image.width, 1)))
            pixels = np.empty((image.height, *first.shape[1:]), dtype=first.dtype)
            for rows in blocks:
                pixels[rows] = _converted(image.crop((0, rows.start, image.width, rows.stop)))
            return pixels


@cache
def _let_pillow_read_heic() -> None:
    from pillow_heif import register_heif_opener

    register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)


def _converted(image: Image.Image) -> NDArray[Any]:
    if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits per pixel
        return np.asarray(image).astype(np.float32)
    if image.has_transparency_data:
        return over_white(np.asarray(image.convert("RGBA")))
    return np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever Pillow raises, as an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except Image.UnidentifiedImageError:
        raise ImageError("not a readable image (of no format that midfea reads)") from None
    except Exception as error:  # many kinds on damaged files; also MemoryError
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ImageError(f"not a readable image ({reason})") from None


def over_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """RGBA pixels (height, width, 4) laid over white: (height, width, 3)."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    white = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(white, image).convert("RGB"))


def blocks_of_rows(shape: tuple[int, ...]) -> list[slice]:
    """The rows of an image in blocks; small images are one block."""
    step = max(1, PIXELS_AT_ONCE // max(1, shape[1]))
    return [slice(top, min(top + step, shape[0])) for top in range(0, shape[0], step)]
