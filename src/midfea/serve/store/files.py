"""What is known of image files, without reading every file again.

A file is known by its inode, size and time of change. The hash of its bytes, its width and height are
read once and kept under that key, also over a restart; moves and renames do not change the key.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from midfea.files import open_regular
from midfea.pictures.formats import has_image_ending
from midfea.serve.errors import Refused
from midfea.serve.store.decoding import read_header

Signature = tuple[int, int, int]
ID_DIGITS = 20  # hexadecimal digits of the SHA-256 of a file's bytes
ID_PATTERN = f"^[0-9a-f]{{{ID_DIGITS}}}$"
MAX_JSON_BYTES = 500_000_000  # of a file that the workspace keeps for itself


class FileFacts(NamedTuple):
    """What was read from a file; the id is empty if it is not a usable image."""

    id: str
    width: int
    height: int


def signature(status: os.stat_result) -> Signature:
    """A key that changes whenever the file's content does."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def file_id(path: Path) -> str:
    """The id of a file: the hash of its bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:ID_DIGITS]


def is_id(text: Any) -> bool:
    """Whether this can be an id. Ids become names of files, so nothing else may pass for one."""
    return isinstance(text, str) and re.fullmatch(ID_PATTERN, text) is not None


def read_json(path: Path) -> Any:
    """The content of a JSON file; OSError or ValueError if it is none, or could harm."""
    with open_regular(path) as file:
        content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise ValueError(f"{path}: too large")
    try:
        return json.loads(content, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError(f"{path}: too many brackets") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


class FileIndex:
    """Facts of files by their signatures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._facts: dict[Signature, FileFacts] = {}
        try:
            for inode, size, changed_ns, id, width, height in read_json(path):
                numbers = (inode, size, changed_ns, width, height)
                if not (id == "" or is_id(id)) or not all(type(each) is int for each in numbers):
                    raise ValueError(f"{path}: not written by midfea")
                self._facts[(inode, size, changed_ns)] = FileFacts(id, width, height)
        except (OSError, ValueError, TypeError):
            self._facts = {}  # lost or of another version: the files are read again

    def save(self, temporary: Path) -> None:
        """Write the facts for the next start and for other processes, first under another name."""
        facts = list(self._facts.items())  # other threads may add to them
        temporary.write_text(json.dumps([[*key, *values] for key, values in facts]))
        temporary.replace(self.path)

    def note(self, key: Signature, facts: FileFacts) -> None:
        """Add the facts of a file just written."""
        self._facts[key] = facts

    def get(self, key: Signature) -> FileFacts | None:
        """What is known of a file, without reading it."""
        return self._facts.get(key)

    def keep_only(self, keys: set[Signature]) -> None:
        """Forget all other files, so that removed ones do not fill the memory."""
        for key in [key for key in list(self._facts) if key not in keys]:
            self._facts.pop(key, None)

    def read(self, folder: Path) -> int:
        """Read the files of a folder that are not known yet; returns how many."""
        entries = [(name, signature(status)) for name, status in image_files(folder)]
        unknown = [(name, key) for name, key in entries if self.get(key) is None]
        for name, key in unknown:
            with suppress(OSError):  # moved or removed meanwhile: seen again at its new place
                self._facts[key] = _read_facts(folder / name)
        return len(unknown)


def image_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a folder that are named as images. Links are left out: they may lead anywhere."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not has_image_ending(entry.name):
                    continue
                with suppress(OSError):  # removed meanwhile
                    if _is_text(entry.name) and entry.is_file(follow_symlinks=False):
                        yield entry.name, entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return


def class_folders(folder: Path) -> list[Path]:
    """One folder for each class."""
    try:
        folders = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except FileNotFoundError:
        return []
    return [path for path in folders if not path.name.startswith(".") and _is_text(path.name)]


def _is_text(name: str) -> bool:
    """Whether a name can be sent as JSON: file systems allow bytes that are not text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_facts(path: Path) -> FileFacts:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        header = read_header(path)
    except Refused:
        return FileFacts("", 0, 0)
    return FileFacts(digest[:ID_DIGITS], header.width, header.height)
