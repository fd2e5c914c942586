"""The image formats that midfea reads: one list for folders, uploads and the page."""

from __future__ import annotations

import os
from typing import NamedTuple


class ImageFormat(NamedTuple):
    """A format by Pillow's name, the endings of its files (the usual one first) and its media type."""

    name: str
    endings: tuple[str, ...]
    media_type: str


# What cameras, browsers, scanners and laboratories write. Pillow reads more, some by running programs.
FORMATS = {
    each.name: each
    for each in (
        ImageFormat("JPEG", (".jpg", ".jpeg", ".jpe", ".jfif"), "image/jpeg"),
        ImageFormat("MPO", (".jpg", ".jpeg", ".mpo"), "image/jpeg"),  # JPEG with a second view
        ImageFormat("PNG", (".png", ".apng"), "image/png"),
        ImageFormat("WEBP", (".webp",), "image/webp"),
        ImageFormat("AVIF", (".avif",), "image/avif"),
        ImageFormat("GIF", (".gif",), "image/gif"),
        ImageFormat("BMP", (".bmp", ".dib"), "image/bmp"),
        ImageFormat("TIFF", (".tif", ".tiff"), "image/tiff"),
        ImageFormat("JPEG2000", (".jp2", ".j2k"), "image/jp2"),
        ImageFormat("PPM", (".ppm", ".pgm", ".pbm", ".pnm"), "image/x-portable-anymap"),
    )
}
ENDINGS = frozenset(ending for form in FORMATS.values() for ending in form.endings)
DECODERS = tuple(name for name in FORMATS if name != "MPO")  # Pillow opens an MPO file as JPEG


def has_image_ending(name: str) -> bool:
    """Whether a file's name ends as an image's."""
    return _ending(name) in ENDINGS


def media_type(name: str) -> str:
    """The media type of an image by the ending of its file's name."""
    ending = _ending(name)
    types = (form.media_type for form in FORMATS.values() if ending in form.endings)
    return next(types, "application/octet-stream")


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()
