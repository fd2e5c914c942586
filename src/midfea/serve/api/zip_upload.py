"""Images added from a ZIP file of class folders, every entry checked like an upload."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO

from midfea.serve.errors import Refused
from midfea.serve.store.changes import Changes
from midfea.serve.store.images import StoredImage
from midfea.serve.store.names import quoted

MAX_ENTRIES = 100_000
MAX_UNPACKED_BYTES = 8_000_000_000
MAX_EXPANSION = 100  # unpacked size / packed size: images hardly shrink, so more is an attack
MIN_CHECKED_BYTES = 1_000_000  # smaller entries may expand by any factor
MAX_REFUSED = 100  # entries refused before the first image: the rest is not read


def add_zip(changes: Changes, stream: IO[bytes]) -> tuple[list[StoredImage], list[dict[str, str]]]:
    """The images accepted, and the names of those refused with the reasons."""
    accepted: list[StoredImage] = []
    refused: list[dict[str, str]] = []
    try:
        with zipfile.ZipFile(stream) as archive:
            entries = [entry for entry in archive.infolist() if not _is_ignored(entry)]
            _check_sizes(entries)
            for entry in entries:
                try:
                    label, name = _class_and_name(entry.filename)
                    with archive.open(entry) as file:
                        accepted.append(changes.add(label, name, file))
                except Refused as error:
                    refused.append({"name": entry.filename[-200:], "error": str(error)})
                except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
                    refused.append(
                        {"name": entry.filename[-200:], "error": "damaged, or packed in an unknown way"}
                    )
                if len(refused) >= MAX_REFUSED and not accepted:
                    raise Refused(
                        f"none of the first {MAX_REFUSED} files can be used ({refused[0]['error']}): "
                        "is it the right file?"
                    )
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError):
        raise Refused(
            "not a ZIP file, or damaged: choose a .zip with one folder for each class"
        ) from None
    if not accepted and not refused:
        raise Refused("no images in it: a .zip with one folder of images for each class is needed")
    return accepted, refused


def _is_ignored(entry: zipfile.ZipInfo) -> bool:
    """Folders, and files that operating systems add."""
    parts = PurePosixPath(entry.filename).parts
    return entry.is_dir() or "__MACOSX" in parts or parts[-1:] in ((".DS_Store",), ("Thumbs.db",))


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Refused(f"{len(entries):,} files are too many: at most {MAX_ENTRIES:,} in one .zip")
    if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
        raise Refused(f"too large when unpacked: at most {MAX_UNPACKED_BYTES // 10**9} GB in one .zip")
    for entry in entries:
        if entry.file_size > max(MIN_CHECKED_BYTES, MAX_EXPANSION * entry.compress_size):
            raise Refused(
                f"{quoted(entry.filename)} would grow more than {MAX_EXPANSION} times when unpacked: "
                "no .zip of photos does that"
            )


def _class_and_name(path: str) -> tuple[str, str]:
    """Class and file name: the last two parts of the path."""
    parts = path.split("/")
    if ".." in parts or path.startswith("/") or "\\" in path:
        raise Refused(f"{quoted(path)}: a path must not lead out of its folder")
    if len(parts) < 2:
        raise Refused("not in a folder: put it into the folder of its class")
    return parts[-2], parts[-1]
