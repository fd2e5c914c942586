"""Damaged image files of every format through the whole door: read, or refused in one line."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import numpy as np
from PIL import Image
from pillow_heif import register_heif_opener

from harness import one_line
from midfea.pictures.picture import make_picture
from midfea.pictures.reading import ImageError, read_header, read_image
from mutate import mutated
from scratch import note

PLAIN_SHARE = 0.7  # of cases with formats that are decoded in this process, and so faster


def case(random: Random) -> None:
    """A file with a few changes; every second PNG file with checksums that fit again."""
    files = plain_files() if random.random() < PLAIN_SHARE else other_files()
    content = mutated(random, random.choice(files), files)
    if content.startswith(b"\x89PNG") and random.random() < 0.5:
        content = with_checksums(content)
    replay(content)


def replay(content: bytes) -> None:
    """Read a file's header, and its pixels as a picture."""
    path = note(content)
    try:
        header = read_header(path)
        assert header.width > 0 and header.height > 0, header
    except ImageError as error:
        one_line(error)
    try:
        pixels = read_image(path)
        picture = make_picture(pixels, 150)
    except ImageError as error:
        one_line(error)
        return
    assert pixels.dtype in (np.uint8, np.float32) and pixels.size, (pixels.dtype, pixels.shape)
    assert pixels.shape[2:] in ((), (3,)), pixels.shape
    for plane in (picture.grey, *picture.colours):
        assert plane.shape == picture.shape and max(plane.shape) <= 150, plane.shape
        assert np.isfinite(plane).all(), "not finite"


def warm_up() -> None:
    """Also starts the decoder's process."""
    for content in (*plain_files(), *other_files()):
        replay(content)
        read_image(note(content))


def with_checksums(content: bytes) -> bytes:
    """A PNG file whose chunks have the checksums that they should, as far as there are whole chunks."""
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        if at + 12 + size > len(content):
            break
        checked = content[at + 4 : at + 8 + size]
        parts += [content[at : at + 4], checked, struct.pack(">I", zlib.crc32(checked))]
        at += 12 + size
    return b"".join([*parts, content[at:]])


@cache
def plain_files() -> list[bytes]:
    """Of the formats that are decoded in this process."""
    return list(_plain())


@cache
def other_files() -> list[bytes]:
    """Of the formats that are decoded in another process."""
    return list(_others())


def _drawn(mode: str, width: int = 21, height: int = 17) -> Image.Image:
    down, right = np.mgrid[:height, :width]
    planes = [(9 * down + 5 * right) % 256, (down * right) % 256, 12 * right % 256, 255 - 9 * down]
    pixels = np.stack(planes, axis=2).astype(np.uint8)
    if mode == "I;16":
        return Image.fromarray((257 * pixels[..., 0].astype(np.uint16)).astype(np.uint16))
    if mode == "F":
        return Image.fromarray(pixels[..., 0].astype(np.float32) / 7)
    return Image.fromarray(pixels, "RGBA").convert("RGB" if mode == "P" else mode).convert(mode)


def _file(format: str, mode: str, **options: Any) -> bytes:
    file = io.BytesIO()
    _drawn(mode).save(file, format, **options)
    return file.getvalue()


def _turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "camera"
    return exif.tobytes()


def _plain() -> Iterator[bytes]:
    for mode in ("L", "RGB", "CMYK"):
        yield _file("JPEG", mode)
    yield _file("JPEG", "RGB", progressive=True, exif=_turned())
    yield _file("JPEG", "L", restart_marker_blocks=1, icc_profile=b"profile" * 9)
    for mode in ("1", "L", "P", "LA", "RGB", "RGBA", "I;16"):
        yield _file("PNG", mode)
    yield _file("PNG", "RGB", exif=_turned(), transparency=(0, 0, 0))
    more = [_drawn("P", 21, 17), _drawn("P", 9, 9)]
    yield _file("PNG", "RGBA", save_all=True, append_images=[_drawn("RGBA")])
    yield _file("GIF", "P")
    yield _file("GIF", "L", interlace=1, transparency=3)
    yield _file("GIF", "P", save_all=True, append_images=more, duration=10, loop=0)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield _file("BMP", mode)
    for mode in ("1", "L", "RGB", "I;16"):
        yield _file("PPM", mode)
    yield b"P2\n3 2\n255\n0 1 2\n# more\n253 254 255\n"
    yield b"P3 2 2 9 " + re.sub(rb"(.)", rb"\1 ", b"012345678901")
    yield b"P1 4 2\n0101 1 0 1 0"


def _others() -> Iterator[bytes]:
    for mode in ("RGB", "RGBA"):
        yield _file("WEBP", mode)
        yield _file("WEBP", mode, lossless=True, exif=_turned())
        yield _file("AVIF", mode, speed=10)
    yield _file("WEBP", "RGB", save_all=True, append_images=[_drawn("RGB"), _drawn("RGB")])
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F"):
        yield _file("TIFF", mode)
    for compression in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg", "tiff_adobe_deflate"):
        yield _file("TIFF", "RGB", compression=compression)
    yield _file("TIFF", "1", compression="group4")
    yield _file("TIFF", "L", save_all=True, append_images=[_drawn("L")], big_tiff=True)
    for mode in ("L", "RGB", "RGBA"):
        yield _file("JPEG2000", mode)
    yield _file("JPEG2000", "RGB", no_jp2=True, irreversible=True)
    register_heif_opener()
    for mode in ("L", "RGB", "RGBA"):
        yield _file("HEIF", mode, quality=50, exif=_turned())
