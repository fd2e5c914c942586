"""The door for image files: the library, the command and the page read images here and nowhere else.

Only regular files of the formats of `formats` are read, within the limits of `limits`. The formats that
nearly all files have are decoded here, the others in a process that can be ended (`worker`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from midfea.extras import why_not
from midfea.files import open_regular
from midfea.pictures.decoding import Header, ImageFile, over_white
from midfea.pictures.formats import (
    HEIC,
    HEIC_START,
    ISOLATED,
    ISOLATED_START,
    PLAIN,
    PLAIN_START,
)
from midfea.pictures.limits import ImageError, ImageLimits
from midfea.pictures.worker import RemoteImageFile

SMALL_PIXELS = 4_000_000  # an image that need not wait for its turn


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Pixels of a file, (height, width) or (height, width, 3), uint8 (float32 if it holds more).

    Palettes are resolved, transparency is laid over white, the camera's orientation is applied.
    ImageError says why a file cannot be used.
    """
    with open_image(path) as pixels:
        return pixels


def read_header(path: str | os.PathLike[str]) -> Header:
    """Format and size of a file, without decoding it; ImageError says why it cannot be used."""
    with _naming(path):
        return _open(path, ImageLimits.from_environment()).header()


def read_time_taken(path: str | os.PathLike[str]) -> str:
    """When a photo was taken, as cameras write it ("2026:05:17 10:31:02"); empty if not known."""
    with _naming(path):
        return _open(path, ImageLimits.from_environment()).time_taken()


@contextmanager
def open_image(path: str | os.PathLike[str]) -> Iterator[NDArray[Any]]:
    """`read_image` for the time of this context, in which large images take turns: memory is bounded."""
    limits = ImageLimits.from_environment()
    with _naming(path):
        file = _open(path, limits)
    with _turns.take(file.n_pixels, limits.max_pixels):
        with _naming(path):
            pixels = file.pixels()
        del file  # it holds the pixels too
        yield pixels


@contextmanager
def open_content(content: bytes) -> Iterator[NDArray[Any]]:
    """`open_image` of what a file holds; ImageError says why it cannot be used."""
    limits = ImageLimits.from_environment()
    file = _recognized(content, limits)
    with _turns.take(file.n_pixels, limits.max_pixels):
        yield file.pixels()


def file_content(path: str | os.PathLike[str], limits: ImageLimits) -> bytes:
    """All bytes of a regular file; ImageError if there are too many, OSError if it cannot be read."""
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        limits.check_bytes(n_bytes)
        return file.read(n_bytes)


def _open(path: str | os.PathLike[str], limits: ImageLimits) -> ImageFile | RemoteImageFile:
    return _recognized(_content(path, limits), limits)


def _recognized(content: bytes, limits: ImageLimits) -> ImageFile | RemoteImageFile:
    """The file, by the format with which it begins: names are not trusted."""
    if PLAIN_START.match(content):
        return ImageFile(content, PLAIN, limits)
    if HEIC_START.match(content):
        if reason := why_not("heic"):
            raise ImageError(f"HEIC: {reason}")
        return RemoteImageFile(content, HEIC, limits)
    if ISOLATED_START.match(content):
        return RemoteImageFile(content, ISOLATED, limits)
    raise ImageError("not a readable image (of no format that midfea reads)" if content else "is empty")


def _content(path: str | os.PathLike[str], limits: ImageLimits) -> bytes:
    try:
        return file_content(path, limits)
    except FileNotFoundError:
        raise ImageError("no such file") from None
    except ImageError:
        raise
    except (OSError, ValueError) as error:  # a name can be too long, or hold a zero byte
        raise ImageError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except ImageError as error:
        raise ImageError(f"{os.fspath(path)}: {error}") from None


class _Turns:
    """Images are decoded at the same time as long as their pixels together are not too many."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pixels = 0

    @contextmanager
    def take(self, n_pixels: int, max_pixels: int) -> Iterator[None]:
        """Wait until there is room; small images need none."""
        if n_pixels <= SMALL_PIXELS:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: self._pixels == 0 or self._pixels + n_pixels <= max_pixels)
            self._pixels += n_pixels
        try:
            yield
        finally:
            with self._changed:
                self._pixels -= n_pixels
                self._changed.notify_all()


_turns = _Turns()

__all__ = [
    "Header",
    "ImageError",
    "file_content",
    "open_content",
    "open_image",
    "over_white",
    "read_header",
    "read_image",
    "read_time_taken",
]
