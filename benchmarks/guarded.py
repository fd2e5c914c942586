"""A function in a process of its own, so that a crash or a hang of it is an answer like any other."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

Work = Callable[[str], str]  # from the name of a file to what became of it
SPAWN = multiprocessing.get_context("spawn")
START_SECONDS = 120.0
MAX_MEMORY_BYTES = 8 << 30  # of address space above what is usual; more is a MemoryError


class Answer(NamedTuple):
    """What became of a file, and the most memory that the process (and its own) had by then, in MB."""

    outcome: str
    peak: float


class Guarded:
    """Asks one file after the other; a process that has died is replaced."""

    def __init__(self, make: Callable[[], Work], seconds: float = 5.0) -> None:
        self._make, self._seconds = make, seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._end: Connection | None = None

    def __enter__(self) -> Guarded:
        self._running()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, path: Path) -> Answer:
        """What becomes of a file: the function's word, or "crash", "hang"."""
        end = self._running()
        end.send(str(path))
        peak = 0.0
        try:
            if end.poll(self._seconds):
                return Answer(*end.recv())
            outcome = "hang"
            assert self._process is not None
            peak = peak_of(self._process.pid or 0)
        except (EOFError, OSError):
            outcome = "crash"
        self._stop()
        return Answer(outcome, peak)

    def _running(self) -> Connection:
        if self._end is None:
            self._end, other = SPAWN.Pipe()
            self._process = SPAWN.Process(target=_serve, args=(self._make, other), daemon=False)
            self._process.start()
            other.close()
            if not self._end.poll(START_SECONDS) or self._end.recv() != "ready":
                raise RuntimeError("the process did not start")
        return self._end

    def _stop(self) -> None:
        if self._process is not None and self._end is not None:
            self._process.kill()
            self._process.join()
            self._end.close()
        self._process = self._end = None


def count(make: Callable[[], Work], paths: Iterable[Path]) -> tuple[dict[str, int], float]:
    """How often each outcome came, and the peak of memory in MB."""
    counts: dict[str, int] = {}
    peak = 0.0
    with Guarded(make) as guarded:
        for path in paths:
            answer = guarded.ask(path)
            counts[answer.outcome] = counts.get(answer.outcome, 0) + 1
            peak = max(peak, answer.peak)
    return counts, peak


def _serve(make: Callable[[], Work], end: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    work = make()
    limit = MAX_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    end.send("ready")
    while True:
        try:
            path = end.recv()
        except EOFError:
            return
        end.send((work(path), peak_of(os.getpid())))


def peak_of(pid: int) -> float:
    """The most memory of a process and of those that it has started, in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    own = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return own / 1000 + sum(peak_of(int(child)) for child in children)
