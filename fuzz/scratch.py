"""Where a harness puts its files, and where it leaves its input for the runner to find."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from pathlib import Path

FOLDER_VARIABLE = "MIDFEA_FUZZ_SCRATCH"  # set by the runner
INPUT = "input"


def folder() -> Path:
    """The folder of this process."""
    if FOLDER_VARIABLE not in os.environ:
        made = tempfile.mkdtemp(prefix="midfea-fuzz-", dir=memory())
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        os.environ[FOLDER_VARIABLE] = made
    return Path(os.environ[FOLDER_VARIABLE])


def memory() -> str | None:
    """A folder that lies in memory, where there is one: files are written thousands of times."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def kept() -> str:
    """Keep the last input from being written over; the name of its file."""
    path = folder() / INPUT
    if not path.exists():
        return INPUT
    other = path.with_name(f"{INPUT}-{time.monotonic_ns()}")
    path.rename(other)
    return other.name


def note(content: bytes | str) -> Path:
    """Write the input before it is tried: it is there whatever happens then."""
    path = folder() / INPUT
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return path
