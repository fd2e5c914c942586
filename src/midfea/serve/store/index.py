"""What lies in a folder of images, known without reading every file again.

A file is known by its place on the disk, size and time of change; what is read of it once (the hash of
its bytes, width and height) is kept under that, also over a restart, and survives moves and renames.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from midfea.serve.errors import Refused
from midfea.serve.store.incoming import ALL_ENDINGS, read_header

Signature = tuple[int, int, int]
FRESH = 1_000_000_000  # ns: a folder changed as recently may change again within one tick of its clock


class Facts(NamedTuple):
    """What was read of a file; no id if it is not an image that can be used."""

    id: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the workspace. The id is that of its bytes."""

    id: str
    label: str
    name: str
    width: int
    height: int
    changed: int  # ns


def signature(status: os.stat_result) -> Signature:
    """Changes whenever the file's content does."""
    return status.st_ino, status.st_size, status.st_mtime_ns


class Index:
    """Facts of files by their signatures."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._facts: dict[Signature, Facts] = {}
        try:
            for *key, id, width, height in json.loads(file.read_text()):
                self._facts[(key[0], key[1], key[2])] = Facts(id, width, height)
        except (OSError, ValueError, TypeError, IndexError):
            self._facts = {}  # lost or of another version: the files are read again

    def save(self, temporary: Path) -> None:
        """For the next start, and for other processes; written under another name first."""
        known = list(self._facts.items())  # other threads go on
        temporary.write_text(json.dumps([[*key, *facts] for key, facts in known]))
        temporary.replace(self.file)

    def note(self, key: Signature, facts: Facts) -> None:
        """What is known of a file just written."""
        self._facts[key] = facts

    def known(self, key: Signature) -> Facts | None:
        """What is known, without reading."""
        return self._facts.get(key)

    def forget_others(self, keys: set[Signature]) -> None:
        """Keep these only: files that are gone must not fill the memory."""
        for key in [key for key in list(self._facts) if key not in keys]:
            self._facts.pop(key, None)

    def read(self, folder: Path) -> int:
        """Read the files of a folder that are not known yet; how many they were."""
        new = [(name, signature(status)) for name, status in listed(folder)]
        new = [(name, key) for name, key in new if self.known(key) is None]
        for name, key in new:
            with suppress(OSError):  # moved or removed in the meantime: found where it is now
                self._facts[key] = _facts_of(folder / name)
        return len(new)


def listed(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a folder whose names are those of images."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or os.path.splitext(name)[1].lower() not in ALL_ENDINGS:
                    continue
                with suppress(OSError):  # gone in the meantime
                    if _sayable(name) and entry.is_file():
                        yield name, entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return


def class_folders(folder: Path) -> list[Path]:
    """One for each class."""
    try:
        found = [path for path in folder.iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    return [path for path in found if not path.name.startswith(".") and _sayable(path.name)]


def _sayable(name: str) -> bool:
    """Whether a name can be sent to the page: file systems allow bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _facts_of(path: Path) -> Facts:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        try:
            header = read_header(file)
        except Refused:
            return Facts("", 0, 0)
    return Facts(digest[:20], header.width, header.height)
