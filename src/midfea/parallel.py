"""Threads over images, with the linear algebra inside held to one: never more threads than cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

AHEAD = 64  # results that may wait for the one before them
_END = object()

T = TypeVar("T")


@lru_cache
def _controller() -> ThreadpoolController:
    """Looking for the loaded libraries takes 2 ms, half the time of an image: once is enough."""
    return ThreadpoolController()


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: None means all cores; inside a joblib worker, that worker's share."""
    return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))


def linear_algebra_threads(n: int) -> AbstractContextManager[Any]:
    """In this context BLAS and OpenMP use at most n threads."""
    return _controller().limit(limits=n)


def in_parallel(function: Callable[[int], T], indices: Iterable[int], n_threads: int) -> Iterator[T]:
    """function(i) for each i, in order; few results wait at any time, and no thread for the others."""
    indices = list(indices)
    if min(n_threads, len(indices)) <= 1:
        with linear_algebra_threads(n_threads):
            yield from map(function, indices)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads) as pool, linear_algebra_threads(1):
        try:
            for i in indices:
                waiting.append(pool.submit(function, i))
                if len(waiting) == AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # an error, or nobody wants the rest
            for future in waiting:
                future.cancel()


def prefetched(items: Iterable[T]) -> Iterator[T]:
    """The items; another thread makes the next one while one is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Any] = pool.submit(next, iterator, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, iterator, _END)
            yield item
