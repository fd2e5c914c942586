"""Locks between processes. Where the system has no flock (Windows), only within the process."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held through an open file, so it ends with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        """Wait until it is ours."""
        self._take(blocking=True)

    def try_acquire(self) -> bool:
        """Whether it is ours now."""
        return self._take(blocking=False)

    def release(self) -> None:
        """Others may have it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take(self, blocking: bool) -> bool:
        try:
            file = self.path.open("ab")
        except OSError:
            if blocking:
                raise
            return False
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except OSError:
            file.close()
            if blocking:
                raise
            return False
        self._file = file
        return True

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
