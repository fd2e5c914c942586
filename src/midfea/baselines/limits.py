"""Limits of time and memory: a clear error rather than a hang."""

from __future__ import annotations

import time

MEGABYTE = 2**20  # bytes


class Deadline:
    """The moment at which work must be done: `time_limit` seconds from now, or never for None."""

    def __init__(self, seconds: float | None, what: str) -> None:
        self.seconds, self.what = seconds, what
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise TimeoutError if the moment has passed."""
        if self._end is not None and time.monotonic() > self._end:
            raise TimeoutError(
                f"{self.what} took longer than time_limit={self.seconds:g} s: "
                "raise it or use fewer samples"
            )


def check_memory(needed: int, limit: int | None, what: str) -> None:
    """Raise MemoryError if the bytes needed are more than allowed; None allows all."""
    if limit is not None and needed > limit:
        raise MemoryError(
            f"{what} needs about {needed / MEGABYTE:.0f} MB, memory_limit allows "
            f"{limit / MEGABYTE:.0f} MB: raise it or use fewer samples"
        )
