"""Memory that is given back: decoded images are large and short-lived."""

from __future__ import annotations

import ctypes
import platform

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGE_BLOCK_BYTES = 128 * 1024


def give_back_large_blocks() -> None:
    """Let glibc map each large block by itself, and unmap it when it is freed.

    Left alone, it learns from the first freed image that blocks of that size are usual, and takes them
    from its heaps from then on, which grow with every gap that small objects leave between them.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)
