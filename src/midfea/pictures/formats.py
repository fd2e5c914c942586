"""The image formats that midfea reads: one list for folders, uploads and the page."""

from __future__ import annotations

import os
import re
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
        ImageFormat("HEIF", (".heic", ".heif", ".hif"), "image/heic"),  # of phones; needs an extra
        ImageFormat("GIF", (".gif",), "image/gif"),
        ImageFormat("BMP", (".bmp", ".dib"), "image/bmp"),
        ImageFormat("TIFF", (".tif", ".tiff"), "image/tiff"),
        ImageFormat("JPEG2000", (".jp2", ".j2k"), "image/jp2"),
        ImageFormat("PPM", (".ppm", ".pgm", ".pbm", ".pnm"), "image/x-portable-anymap"),
    )
}
ENDINGS = frozenset(ending for form in FORMATS.values() for ending in form.endings)
# Of pictures that are not read, so that nobody wonders where they are: telephones, raw files of cameras,
# drawings, editors, other rare formats.
OTHER_PICTURE_ENDINGS = frozenset({
    ".heic", ".heif", ".hif", ".jxl", ".jpx", ".jpf", ".jxr",
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".kdc", ".mrw", ".nef", ".nrw", ".orf",
    ".pef", ".raf", ".raw", ".rw2", ".sr2", ".srf", ".srw", ".x3f",
    ".ai", ".eps", ".kra", ".psb", ".psd", ".svg", ".svgz", ".xcf",
    ".dcm", ".dds", ".exr", ".hdr", ".icns", ".ico", ".pam", ".pcx", ".qoi", ".tga",
}) - ENDINGS  # fmt: skip
# Decoded in this process; the others in one that can be ended. Pillow opens an MPO file as JPEG.
PLAIN = ("JPEG", "PNG", "GIF", "BMP", "PPM")
HEIC = ("HEIF",)  # alone: AVIF files begin much like it
ISOLATED = tuple(name for name in FORMATS if name not in (*PLAIN, *HEIC, "MPO"))
# How files of these formats begin.
PLAIN_START = re.compile(rb"\xff\xd8\xff|\x89PNG|GIF8|BM|P[1-6]\s")
ISOLATED_START = re.compile(
    rb"RIFF....WEBP|....ftyp|II[*+]\0|MM\0[*+]|\0\0\0\x0cjP|\xff\x4f\xff\x51", re.DOTALL
)

# The brand of the file, or of those that a file of a general brand is compatible with.
HEIC_START = re.compile(
    rb"....ftyp(?:(?:mif1|msf1)....(?:....){0,8}?)?(?:hei[cxms]|hev[cxms])", re.DOTALL
)


def has_image_ending(name: str) -> bool:
    """Whether a file's name ends as an image's."""
    return ending_of(name) in ENDINGS


def has_other_picture_ending(name: str) -> bool:
    """Whether a file's name ends as that of a picture that midfea does not read."""
    return ending_of(name) in OTHER_PICTURE_ENDINGS


def why_not_read(name: str) -> str:
    """What to say of a picture that midfea does not read."""
    return f"midfea does not read {ending_of(name)} files: save it as JPEG or PNG"


def media_type(name: str) -> str:
    """The media type of an image by the ending of its file's name."""
    ending = ending_of(name)
    types = (form.media_type for form in FORMATS.values() if ending in form.endings)
    return next(types, "application/octet-stream")


def ending_of(name: str) -> str:
    """The ending of a file's name in small letters, with its dot; "" if it has none."""
    return os.path.splitext(name)[1].lower()
