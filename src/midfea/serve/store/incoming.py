"""Files on their way in: written where nobody looks, checked, and only then put in their place."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from PIL import Image

from midfea.pictures.images import ImageError, read_image
from midfea.pictures.thumbnails import thumbnail
from midfea.serve.errors import Refused
from midfea.serve.store.lock import Lock
from midfea.serve.store.names import shown

MOST_BYTES = 32_000_000  # of an image's file
MOST_PIXELS = 60_000_000
FEWEST_SIDE = 16
THUMBNAIL_SIDE = 160
CHUNK = 1 << 20
# What cameras and browsers make. Pillow reads others too, some by running other programs.
ENDINGS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "MPO": (".jpg", ".jpeg", ".mpo"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "AVIF": (".avif",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm"),
}
ALL_ENDINGS = {ending for endings in ENDINGS.values() for ending in endings}


class Readable(Protocol):
    """What a file can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end."""


class Received(NamedTuple):
    """A file as it was written down."""

    path: Path
    id: str  # of its bytes


class Header(NamedTuple):
    """What an image's file says of itself."""

    format: str
    width: int
    height: int


class Picture(NamedTuple):
    """An image that could be decoded."""

    width: int
    height: int
    endings: tuple[str, ...]  # that its file's name may have
    thumbnail: bytes  # a WebP file


class Incoming:
    """A folder of this process for unfinished files; those of processes that ended are swept away."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder / secrets.token_hex(8)
        self.folder.mkdir()
        self._lock = Lock(self.folder / "lock")
        self._lock.acquire()

    @staticmethod
    def sweep(folder: Path) -> None:
        """Remove what processes left that did not come to their end."""
        for old in folder.iterdir() if folder.is_dir() else ():
            lock = Lock(old / "lock")
            if lock.try_acquire():
                shutil.rmtree(old, ignore_errors=True)
                lock.release()

    def close(self) -> None:
        """Nothing is on its way any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def new(self) -> Path:
        """A name that nobody else has."""
        return self.folder / secrets.token_hex(12)

    @contextmanager
    def receive(
        self, stream: Readable, most_bytes: int = MOST_BYTES, safe: bool = True
    ) -> Iterator[Received]:
        """The stream as a file, `safe` on the disk; it vanishes at the end unless it was moved."""
        path, content, size = self.new(), hashlib.sha256(), 0
        try:
            with path.open("xb") as file:
                while chunk := stream.read(CHUNK):
                    size += len(chunk)
                    if size > most_bytes:
                        raise Refused(f"the file is larger than {most_bytes // 10**6} MB: reduce it")
                    content.update(chunk)
                    file.write(chunk)
                file.flush()
                if safe:
                    os.fsync(file.fileno())
            if not size:
                raise Refused("the file is empty")
            yield Received(path, content.hexdigest()[:20])
        finally:
            path.unlink(missing_ok=True)


def read_header(path: Path | IO[bytes]) -> Header:
    """Format and size, without decoding; `Refused` if the image is of no use."""
    try:
        # Pillow knows no MPO by that name: it is a JPEG until its header is read.
        with Image.open(path, formats=[each for each in ENDINGS if each != "MPO"]) as image:
            found = Header(str(image.format), image.width, image.height)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Refused(_too_many()) from None
    except Exception:  # Pillow raises many kinds on damaged files
        raise Refused(
            "not an image that can be read, or damaged: send JPEG, PNG, WebP, GIF, BMP or TIFF"
        ) from None
    if found.width * found.height > MOST_PIXELS:
        raise Refused(_too_many(f"{found.width}x{found.height} pixels"))
    if min(found.width, found.height) < FEWEST_SIDE:
        raise Refused(
            f"{found.width}x{found.height} pixels are too few: {FEWEST_SIDE}x{FEWEST_SIDE} are needed"
        )
    return found


def _too_many(size: str = "that many pixels") -> str:
    return f"{size} are too many: reduce the image to {MOST_PIXELS // 10**6} megapixels or fewer"


def decode(path: Path) -> Picture:
    """Read the image whole, as training will; `Refused` if that cannot be done."""
    header = read_header(path)
    try:
        pixels = read_image(path)
        small = thumbnail(pixels, THUMBNAIL_SIDE)
    except ImageError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise Refused(f"{reason}: the file is damaged or cut short") from None
    except (ValueError, MemoryError) as error:
        raise Refused(f"the image cannot be used ({error})") from None
    return Picture(pixels.shape[1], pixels.shape[0], ENDINGS[header.format], small)


def fitting_name(name: str, endings: tuple[str, ...]) -> str:
    """The name, with an ending that says what the file is."""
    ending = os.path.splitext(name)[1].lower()
    if ending in endings or ending in ALL_ENDINGS:
        return name
    if len(name.encode()) > 190:
        raise Refused(f"{shown(name)}: the name does not end as an image's, such as {endings[0]}")
    return name + endings[0]
