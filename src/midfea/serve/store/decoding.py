"""Decoding image files from outside, within limits of size and memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.pictures import reading
from midfea.pictures.formats import FORMATS, ImageFormat, has_image_ending
from midfea.pictures.limits import ImageError
from midfea.pictures.picture import to_grey
from midfea.pictures.thumbnails import thumbnail
from midfea.serve.errors import Refused
from midfea.serve.store.names import quoted

MAX_FILE_BYTES = 32_000_000
MIN_SIDE_PIXELS = 16
THUMBNAIL_SIDE_PIXELS = 160
MAX_NAME_BYTES = 190  # of a name that gets an ending


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


@contextmanager
def open_pixels(path: Path) -> Iterator[NDArray[Any]]:
    """The pixels of an image file for the time of this context; `Refused` if it cannot be used."""
    read_header(path)
    with _refusing(path), reading.open_image(path) as pixels:
        yield pixels


def decode_image(path: Path) -> DecodedImage:
    """Size and thumbnail of an image, which is decoded whole, as training will do it."""
    header = read_header(path)
    with _refusing(path), reading.open_image(path) as pixels:
        shown = pixels if pixels.dtype == np.uint8 else to_grey(pixels)
        small = thumbnail(shown, THUMBNAIL_SIDE_PIXELS)
        return DecodedImage(pixels.shape[1], pixels.shape[0], header.format, small)


def read_header(path: Path) -> Header:
    """Format and size, without decoding; `Refused` if the image cannot be used."""
    with _refusing(path):
        name, width, height = reading.read_header(path)
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


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except ImageError as error:
        raise Refused(str(error).removeprefix(f"{path}: ")) from None
