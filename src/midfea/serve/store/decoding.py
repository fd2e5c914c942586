"""Decoding image files from outside, within limits of size and memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from midfea.pictures import reading
from midfea.pictures.formats import FORMATS, ImageFormat, has_image_ending
from midfea.pictures.limits import ImageError
from midfea.pictures.thumbnails import thumbnail
from midfea.serve.errors import Refused
from midfea.serve.store.names import quoted

MAX_FILE_BYTES = 32_000_000
MIN_SIDE_PIXELS = 16
THUMBNAIL_SIDE_PIXELS = 160
MAX_NAME_BYTES = 190  # of a name that gets an ending
N_AT_ONCE = 2  # images decoded at the same time: 60 megapixels take 200 MB


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


class Decoder:
    """Decodes a few images at a time, so that many requests do not fill the memory."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(N_AT_ONCE)

    def pixels(self, path: Path) -> NDArray[Any]:
        """The pixels of an image file; `Refused` with the reason if it cannot be read."""
        with self._places:
            read_header(path)
            return _read(path)

    def image(self, path: Path) -> DecodedImage:
        """Size and thumbnail of an image, which is decoded whole, as training will do it."""
        with self._places:
            header = read_header(path)
            pixels = _read(path)
            try:
                small = thumbnail(pixels, THUMBNAIL_SIDE_PIXELS)
            except (ValueError, MemoryError) as error:
                raise Refused(f"the image cannot be used ({error})") from None
            return DecodedImage(pixels.shape[1], pixels.shape[0], header.format, small)


def read_header(path: Path) -> Header:
    """Format and size, without decoding; `Refused` if the image cannot be used."""
    try:
        name, width, height = reading.read_header(path)
    except ImageError as error:
        raise Refused(_without_name(error, path)) from None
    header = Header(FORMATS[name], width, height)
    if min(width, height) < MIN_SIDE_PIXELS:
        raise Refused(
            f"{width}x{height} pixels are too few: {MIN_SIDE_PIXELS}x{MIN_SIDE_PIXELS} are needed"
        )
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
        return reading.read_image(path)
    except ImageError as error:
        raise Refused(f"{_without_name(error, path)}: the file is damaged or cut short") from None


def _without_name(error: ImageError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ")
