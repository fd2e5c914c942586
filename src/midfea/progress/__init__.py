"""Progress of long work: library code says `track(...)`, whoever runs it decides what is shown."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

Report = Callable[[str, int, int], None]  # what is being done, steps done, steps in all
Plan = Sequence[tuple[str, float]]  # steps to come, in their order, and roughly their seconds
T = TypeVar("T")


class Listener(NamedTuple):
    """Who is told of the progress, and of the steps to come."""

    report: Report
    expect: Callable[[Plan], None] | None


class _Block(NamedTuple):
    """Some of the items that are worked on: those from `begin` on, `size` of `total`."""

    begin: int
    size: int
    total: int


_listener: ContextVar[Listener | None] = ContextVar("midfea_progress", default=None)
_block: ContextVar[_Block | None] = ContextVar("midfea_progress_block", default=None)


def track(items: Iterable[T], what: str, total: int) -> Generator[T, None, None]:
    """The items themselves, each one reported when it is done; stopping early counts as done."""
    listener = _listener.get()
    if listener is None:
        yield from items
        return
    block = _block.get() or _Block(0, total, total)
    scale = total / max(block.size, 1)  # an engine may take several items at a time
    before, whole = round(block.begin * scale), round(block.total * scale)
    listener.report(what, before, whole)
    try:
        for done, item in enumerate(items, start=1):
            yield item
            listener.report(what, before + min(done, total), whole)
    except GeneratorExit:
        listener.report(what, before + total, whole)
        raise


def expect(plan: Callable[[], Plan]) -> None:
    """Say which steps come now; only asked for if someone wants to know.

    Names are those that `track` will report. Steps of the plan that never come, and steps that it does
    not know, do no harm.
    """
    listener = _listener.get()
    if listener is not None and listener.expect is not None:
        listener.expect(plan())


@contextmanager
def counting_from(begin: int, size: int, total: int) -> Iterator[None]:
    """Within this context steps are those of a block of items, and are counted among all items."""
    token = _block.set(_Block(begin, size, total))
    try:
        yield
    finally:
        _block.reset(token)


@contextmanager
def reporting_to(report: Report | None, expect: Callable[[Plan], None] | None = None) -> Iterator[None]:
    """Within this context `track` reports here, and `expect` tells the steps to come."""
    token = _listener.set(None if report is None else Listener(report, expect))
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress_bars(shown: bool = True) -> Iterator[None]:
    """A bar with the time left, in a terminal or notebook; elsewhere lines on standard error."""
    if not shown or _listener.get() is not None:
        yield
        return
    from midfea.progress.display import showing
    from midfea.progress.remaining import Remaining

    remaining = Remaining()
    with showing(remaining), reporting_to(remaining.report, remaining.expect):
        yield
