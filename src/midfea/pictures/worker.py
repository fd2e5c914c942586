"""Decoding in processes of their own, which can be ended: for formats whose decoders have had flaws.

A file that makes its decoder crash, hang or take all memory costs a process, not the program. The
process reads requests (a line of JSON) and answers each with a line of JSON, then the pixels.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.decoding import Header, ImageFile
from midfea.pictures.limits import ImageError, ImageLimits

MAX_MEMORY_BYTES = 1 << 30  # of one process, where the system can limit it
START_SECONDS = 20.0  # more for the first answer of a process on a busy machine


class Worker:
    """One process that decodes one image after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "midfea.pictures.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self._started = False

    def ask(self, content: bytes, request: dict[str, Any], seconds: float) -> tuple[Any, bytes]:
        """The answer to a request about a file's content, or ImageError."""
        allowed = seconds if self._started else seconds + START_SECONDS
        late = threading.Timer(allowed, self._process.kill)
        late.start()
        try:
            answer, data = self._talk(content, request)
        except (OSError, ValueError, KeyError):
            took_too_long = not late.is_alive()
            self.close()
            raise ImageError(
                f"not a readable image (decoding took more than {allowed:.0f} s, and was ended)"
                if took_too_long
                else "not a readable image (its decoder crashed, or took too much memory)"
            ) from None
        finally:
            late.cancel()
        self._started = True
        if "error" in answer:
            raise ImageError(str(answer["error"]))
        return answer, data

    def _talk(self, content: bytes, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None and answers is not None
        _write_message(to, request | {"n_bytes": len(content)}, content)
        return _read_message(answers)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()


class RemoteImageFile:
    """`ImageFile`, opened and decoded in another process."""

    def __init__(self, content: bytes, formats: tuple[str, ...], limits: ImageLimits) -> None:
        self._content, self._seconds_left = content, limits.seconds(len(content))
        self._request = {"formats": list(formats), "limits": asdict(limits)}
        self._header = Header(*self._ask("header")[0]["header"])

    @property
    def n_pixels(self) -> int:
        """See `ImageFile`."""
        return self._header.width * self._header.height

    def header(self) -> Header:
        """See `ImageFile`."""
        return self._header

    def time_taken(self) -> str:
        """See `ImageFile`."""
        return str(self._ask("time taken")[0]["taken"])

    def pixels(self) -> NDArray[Any]:
        """See `ImageFile`."""
        about, data = self._ask("pixels")
        return np.frombuffer(bytearray(data), dtype=about["dtype"]).reshape(about["shape"])

    def _ask(self, what: str) -> tuple[Any, bytes]:
        with _workers.one() as worker:
            begun = time.monotonic()
            try:
                return worker.ask(self._content, {"what": what} | self._request, self._seconds_left)
            finally:
                left = self._seconds_left - (time.monotonic() - begun)
                self._seconds_left = max(1.0, left)  # the first answer of a new process may be late


class _Workers:
    """As many processes as are asked at the same time, and no more than there are cores."""

    def __init__(self) -> None:
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._places = threading.BoundedSemaphore(os.cpu_count() or 1)

    @contextmanager
    def one(self) -> Iterator[Worker]:
        """A process that nobody else asks."""
        with self._places:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                worker = Worker()
            try:
                yield worker
            finally:
                if worker.alive:
                    self._idle.put(worker)

    def close(self) -> None:
        """End the processes that have nothing to do."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


def _forget_workers() -> None:
    global _workers
    _workers = _Workers()


_workers = _Workers()
atexit.register(lambda: _workers.close())
if hasattr(os, "register_at_fork"):  # a forked process must not share the pipes
    os.register_at_fork(after_in_child=_forget_workers)


def _write_message(stream: IO[bytes], message: dict[str, Any], data: Any) -> None:
    stream.write(json.dumps(message).encode() + b"\n")
    stream.write(data)
    stream.flush()


def _read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    message = json.loads(stream.readline())
    data = stream.read(message["n_bytes"])
    if len(data) != message["n_bytes"]:
        raise ValueError("the stream ended")
    return message, data


def _answer(message: dict[str, Any], content: bytes) -> tuple[dict[str, Any], Any]:
    limits = ImageLimits(**message["limits"])
    try:
        file = ImageFile(content, tuple(message["formats"]), limits)
        if message["what"] == "header":
            return {"header": file.header(), "n_bytes": 0}, b""
        if message["what"] == "time taken":
            return {"taken": file.time_taken(), "n_bytes": 0}, b""
        pixels = np.ascontiguousarray(file.pixels())
    except ImageError as error:
        return {"error": str(error), "n_bytes": 0}, b""
    about = {"shape": pixels.shape, "dtype": str(pixels.dtype), "n_bytes": pixels.nbytes}
    return about, pixels.data.cast("B") if pixels.size else b""


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


def main() -> None:
    """Answer requests until there are no more."""
    _limit_memory()
    with suppress(ValueError, BrokenPipeError, KeyboardInterrupt):
        while True:
            message, content = _read_message(sys.stdin.buffer)
            _write_message(sys.stdout.buffer, *_answer(message, content))


if __name__ == "__main__":
    main()
