"""Decoding image files from outside, within limits of size and memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

from numpy.typing import NDArray
from PIL import Image

from midfea.pictures.formats import DECODERS, FORMATS, ImageFormat, has_image_ending
from midfea.pictures.reading import ImageError, read_image
from midfea.pictures.thumbnails import thumbnail
from midfea.serve.errors import Refused
from midfea.serve.store.names import quoted

MAX_FILE_BYTES = 32_000_000
MAX_PIXELS = 60_000_000
MIN_SIDE_PIXELS = 16
THUMBNAIL_SIDE_PIXELS = 160
MAX_NAME_BYTES = 190  # of a name that gets an ending
N_AT_ONCE = 2  # images decoded at the same time: 60 megapixels take 200 MB

_places = threading.BoundedSemaphore(N_AT_ONCE)  # many requests must not fill the memory


class Header(NamedTuple):
    """What an image file says about itself."""

    format: ImageFormat
    width: int
    height: int


class DecodedImage(NamedTuple):
    """Width and height, the file's format and a thumbnail (a WebP file)."""

    width: int
    height: int
    format: ImageFormat
    thumbnail: bytes


def decode_pixels(path: Path) -> NDArray[Any]:
    """The pixels of an image file; `Refused` with the reason if it cannot be read."""
    with _places:
        read_header(path)
        return _read(path)


def decode_image(path: Path) -> DecodedImage:
    """Size and thumbnail of an image, which is decoded whole, as training will do it."""
    with _places:
        header = read_header(path)
        pixels = _read(path)
        try:
            small = thumbnail(pixels, THUMBNAIL_SIDE_PIXELS)
        except (ValueError, MemoryError) as error:
            raise Refused(f"the image cannot be used ({error})") from None
        return DecodedImage(pixels.shape[1], pixels.shape[0], header.format, small)


def read_header(path: Path | IO[bytes]) -> Header:
    """Format and size, without decoding; `Refused` if the image cannot be used."""
    try:
        with Image.open(path, formats=DECODERS) as image:
            header = Header(FORMATS[str(image.format)], image.width, image.height)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refused(_too_large()) from None
    except Exception:  # Pillow raises many kinds on damaged files
        raise Refused(
            "not an image that can be read, or damaged: send JPEG, PNG, WebP, GIF, BMP or TIFF"
        ) from None
    size = f"{header.width}x{header.height} pixels"
    if header.width * header.height > MAX_PIXELS:
        raise Refused(_too_large(size))
    if min(header.width, header.height) < MIN_SIDE_PIXELS:
        raise Refused(f"{size} are too few: {MIN_SIDE_PIXELS}x{MIN_SIDE_PIXELS} are needed")
    return header


def name_with_ending(name: str, form: ImageFormat) -> str:
    """The name, with the usual ending of the format if it has none of an image."""
    if has_image_ending(name):
        return name
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        raise Refused(f"{quoted(name)}: the name has no image ending, such as {form.endings[0]}")
    return name + form.endings[0]


def _read(path: Path) -> NDArray[Any]:
    try:
        return read_image(path)
    except ImageError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise Refused(f"{reason}: the file is damaged or cut short") from None
    except (ValueError, MemoryError) as error:
        raise Refused(f"the image cannot be used ({error})") from None


def _too_large(size: str = "that many pixels") -> str:
    return f"{size} are too many: reduce the image to {MAX_PIXELS // 10**6} megapixels or fewer"
