"""A folder tree of images taken in again from a ZIP file, every entry checked like an upload."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO

from midfea.serve.errors import Refused
from midfea.serve.store.index import StoredImage
from midfea.serve.store.names import shown
from midfea.serve.store.workspace import Workspace

MOST_ENTRIES = 100_000
MOST_UNPACKED = 8_000_000_000
MOST_TIMES = 100  # larger than packed: images are packed already, so more is a trap
SMALL = 1_000_000  # bytes: not worth a look
FEW = 100  # refused entries in a row before the first image: the rest is not looked at


def open_images(
    workspace: Workspace, stream: IO[bytes]
) -> tuple[list[StoredImage], list[dict[str, str]]]:
    """The images accepted, and the names of those refused with the reasons."""
    accepted: list[StoredImage] = []
    refused: list[dict[str, str]] = []
    try:
        with zipfile.ZipFile(stream) as archive:
            entries = [entry for entry in archive.infolist() if not _passed_over(entry)]
            _check_sizes(entries)
            for entry in entries:
                try:
                    label, name = _place(entry.filename)
                    with archive.open(entry) as file:
                        accepted.append(workspace.add(label, name, file))
                except Refused as error:
                    refused.append({"name": entry.filename[-200:], "error": str(error)})
                except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
                    refused.append(
                        {"name": entry.filename[-200:], "error": "damaged, or packed in an unknown way"}
                    )
                if len(refused) >= FEW and not accepted:
                    raise Refused(
                        f"the first {FEW} files are no images of use ({refused[0]['error']}): "
                        "is it the right file?"
                    )
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError):
        raise Refused(
            "not a ZIP file, or damaged: choose a .zip with one folder for each class"
        ) from None
    if not accepted and not refused:
        raise Refused("no images in it: a .zip with one folder of images for each class is needed")
    return accepted, refused


def _passed_over(entry: zipfile.ZipInfo) -> bool:
    """Folders, and what systems add of their own."""
    parts = PurePosixPath(entry.filename).parts
    return entry.is_dir() or "__MACOSX" in parts or parts[-1:] in ((".DS_Store",), ("Thumbs.db",))


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_ENTRIES:
        raise Refused(f"{len(entries):,} files are too many: at most {MOST_ENTRIES:,} in one .zip")
    if sum(entry.file_size for entry in entries) > MOST_UNPACKED:
        raise Refused(f"too large when unpacked: at most {MOST_UNPACKED // 10**9} GB in one .zip")
    for entry in entries:
        if entry.file_size > max(SMALL, MOST_TIMES * entry.compress_size):
            raise Refused(
                f"{shown(entry.filename)} would grow more than {MOST_TIMES} times when unpacked: "
                "no .zip of photos does that"
            )


def _place(path: str) -> tuple[str, str]:
    """Class and file name: the last two parts of the path."""
    parts = path.split("/")
    if ".." in parts or path.startswith("/") or "\\" in path:
        raise Refused(f"{shown(path)}: a path must not lead out of its folder")
    if len(parts) < 2:
        raise Refused("not in a folder: put it into the folder of its class")
    return parts[-2], parts[-1]
