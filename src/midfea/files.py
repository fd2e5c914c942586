"""Writing files so that a reader never sees half of one, and reading none that could keep us waiting."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO

ENDING = ".unfinished"
MAX_AGE_SECONDS = 3600  # of an unfinished file; older ones were left by a process that was killed
MAX_NAMES_COMPARED = 2000  # with one that was mistyped
MAX_NAME_CHARACTERS = 40  # of the target's name in that of its unfinished file: names have a limit


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place at the end, or vanishes on an error.

    OSError with a readable message if the folder is missing or cannot be written.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """OSError now, before any long work, if `path` could not be written later."""
    _beside(Path(path)).unlink()


def did_you_mean(path: str | os.PathLike[str], fits: Callable[[Path], bool]) -> Path | None:
    """What lies where nothing of this name is, and is named most like it; None if nothing is."""
    wanted = Path(path)
    names: dict[str, str] = {}
    with suppress(OSError, ValueError):
        for entry in islice(os.scandir(wanted.parent), MAX_NAMES_COMPARED):
            for name in (entry.name, os.path.splitext(entry.name)[0]):
                names.setdefault(name.lower(), entry.name)
    for name in get_close_matches(wanted.name.lower(), names):
        near = wanted.with_name(names[name])
        if fits(near):
            return near
    return None


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a failure of the machine."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # the folder is gone, or cannot be opened here (Windows)
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A regular file, to be read; OSError for anything else: a pipe could keep us waiting for ever."""
    if stat.S_ISDIR(os.stat(path).st_mode):
        raise IsADirectoryError("is a folder, not a file")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("is not a regular file")
    return os.fdopen(handle, "rb", buffering=0)


def _beside(target: Path) -> Path:
    """A new empty file in the same folder."""
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder, name a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    start = f".{target.name[:MAX_NAME_CHARACTERS]}."
    _sweep(target.parent, start)
    temporary = target.parent / f"{start}{secrets.token_hex(6)}{ENDING}"
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise OSError(f"cannot write {target}: {error.strerror}") from None
    return temporary


def _sweep(folder: Path, start: str) -> None:
    """Remove unfinished files that were left behind."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(start) and entry.name.endswith(ENDING):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > MAX_AGE_SECONDS:
                        os.unlink(entry.path)
