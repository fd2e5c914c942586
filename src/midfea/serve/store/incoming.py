"""Unfinished files: written where nobody looks, checked, and only then moved to their place."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from filelock import FileLock

from midfea.serve.errors import Refused
from midfea.serve.store.decoding import MAX_FILE_BYTES
from midfea.serve.store.files import ID_DIGITS

CHUNK_BYTES = 1 << 20


class Readable(Protocol):
    """A file as far as it is needed here."""

    def read(self, n_bytes: int, /) -> bytes:
        """At most so many bytes, the next ones."""


class Received(NamedTuple):
    """A file that has been written, and the id of its content."""

    path: Path
    id: str


class Incoming:
    """A folder of this process for unfinished files; those of ended processes are removed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder / secrets.token_hex(8)
        self.folder.mkdir()
        # Closed by another thread than the one that opened it.
        self._lock = FileLock(self.folder / "lock", thread_local=False)
        self._lock.acquire()

    @staticmethod
    def sweep(folder: Path) -> None:
        """Remove the folders of processes that were killed."""
        for old in folder.iterdir() if folder.is_dir() else ():
            with suppress(OSError), FileLock(old / "lock", blocking=False):  # a Timeout is an OSError
                shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def new(self) -> Path:
        """A path that nobody else uses."""
        return self.folder / secrets.token_hex(12)

    @contextmanager
    def receive(
        self, stream: Readable, max_bytes: int = MAX_FILE_BYTES, durable: bool = True
    ) -> Iterator[Received]:
        """The stream as a file, synced to the disk if `durable`; removed at the end unless moved."""
        path, content, size = self.new(), hashlib.sha256(), 0
        try:
            with path.open("xb") as file:
                while chunk := stream.read(CHUNK_BYTES):
                    size += len(chunk)
                    if size > max_bytes:
                        raise Refused(f"the file is larger than {max_bytes // 10**6} MB: reduce it")
                    content.update(chunk)
                    file.write(chunk)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            if not size:
                raise Refused("the file is empty")
            yield Received(path, content.hexdigest()[:ID_DIGITS])
        finally:
            path.unlink(missing_ok=True)
