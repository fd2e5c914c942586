"""Processes that this one starts: they end with it, and it says when one has ended before its time."""

from __future__ import annotations

import multiprocessing
import os
import threading

CONTEXT = multiprocessing.get_context("spawn")


def end_with_parent() -> None:
    """To be called in a child: a parent that was killed cannot end its children."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def child_ended(what: str) -> ChildProcessError:
    """The error to raise after a process of that kind has ended before its time."""
    return ChildProcessError(
        f"a {what} process ended, perhaps for want of memory. Finished shards are kept: type the same "
        "command again, with fewer --jobs if memory was short"
    )
