"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place at the end, or vanishes on an error.

    OSError with a readable message if the folder is missing or cannot be written.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp keeps the file to its owner
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """OSError now, before any long work, if `path` could not be written later."""
    _beside(Path(path)).unlink()


def _beside(target: Path) -> Path:
    """A new empty file in the same folder."""
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a folder, name a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no folder {target.parent}")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise OSError(f"cannot write {target}: {error.strerror}") from None
    os.close(handle)
    return Path(name)
