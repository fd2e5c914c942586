"""Progress of long work: library code says `track(...)`, whoever runs it decides what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Report = Callable[[str, int, int], None]  # what is being done, steps done, steps in all
T = TypeVar("T")

_report: ContextVar[Report | None] = ContextVar("midfea_progress", default=None)


def track(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items themselves, each one reported when it is done; stopping early counts as done."""
    report = _report.get()
    if report is None:
        yield from items
        return
    report(what, 0, total)
    try:
        for done, item in enumerate(items, start=1):
            yield item
            report(what, min(done, total), total)
    except GeneratorExit:
        report(what, total, total)
        raise


@contextmanager
def reporting_to(report: Report | None) -> Iterator[None]:
    """Within this context `track` reports here."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


@contextmanager
def progress_bars(shown: bool = True) -> Iterator[None]:
    """Bars with the time left on standard error; nothing if that is not a terminal."""
    if not shown or _report.get() is not None:
        yield
        return
    from rich import progress as bar
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done_of_all = (bar.BarColumn(), bar.MofNCompleteColumn())
    times = (bar.TimeElapsedColumn(), "left", bar.TimeRemainingColumn())
    name = bar.TextColumn("{task.description}", markup=False)
    with bar.Progress(name, *done_of_all, *times, console=console) as bars:
        tasks: dict[str, bar.TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            elif done == 0:  # the same step once more: its time starts anew
                bars.reset(tasks[what], total=total)
            bars.update(tasks[what], completed=done, total=total)

        with reporting_to(report):
            yield
