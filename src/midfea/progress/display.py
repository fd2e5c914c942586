"""What people see of the progress: a bar in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from midfea.progress.remaining import Remaining, State

if TYPE_CHECKING:
    from rich.console import Console

TICK_SECONDS = 0.25
QUIET_SECONDS = 5.0  # work that is over by then needs no lines
SECONDS_BETWEEN_LINES = 10.0
SECONDS_BEFORE_NEW_STEP = 3.0  # since the last line: short steps have none of their own
NOTEBOOK_SECONDS = 0.5  # work that is over by then leaves nothing in a notebook
BAR_WIDTH = 20  # characters
LABEL_WIDTH = 28  # characters; the bar stays where it is when the step changes


class Display(Protocol):
    """Shows states one after the other."""

    def show(self, state: State) -> None:
        """The present state, several times a second."""

    def close(self, done: bool) -> None:
        """The work is done, or was given up."""


@contextmanager
def showing(remaining: Remaining) -> Iterator[None]:
    """Within this context the state is shown as suits the place."""
    display = _display()
    if display is None:
        yield
        return
    over = threading.Event()

    def work() -> None:
        while not over.wait(TICK_SECONDS):
            try:
                display.show(remaining.state())
            except (OSError, ValueError):  # standard error is closed: work goes on
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    done = False
    try:
        yield
        done = True
    finally:
        over.set()
        thread.join()
        display.close(done)


def _display() -> Display | None:
    if sys.stderr is None:  # a program without a console
        return None
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        return NotebookBar()
    can_redraw = console.is_terminal and not console.is_dumb_terminal
    return TerminalBar(console) if can_redraw else PlainLines()


def time_left(seconds: float | None) -> str:
    """A time left in words, as exact as an estimate is; empty if it is not known."""
    if seconds is None:
        return ""
    if seconds < 7.5:
        return "a few seconds left"
    if seconds < 52.5:
        return f"about {5 * round(seconds / 5)} s left"
    if seconds < 90 * 60:
        return f"about {max(1, round(seconds / 60))} min left"
    return f"about {round(seconds / 1800) / 2:g} h left"


def step_of(state: State) -> str:
    """The step in words, with the number of its parts and its rate."""
    count = f" {state.done}/{state.total}" if state.total else ""
    rate = state.per_second
    if rate is None:
        return f"{state.step}{count}"
    return f"{state.step}{count}, {rate:,.{0 if rate >= 10 else 1}f} images/s"


class TerminalBar:
    """One line that changes, and is gone at the end."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, state: State) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 2))
        line.add_column(min_width=LABEL_WIDTH, no_wrap=True, overflow="ellipsis")
        for _ in range(3):
            line.add_column(no_wrap=True)
        bar = ProgressBar(1.0, state.fraction, BAR_WIDTH)
        left = time_left(state.seconds_left)
        line.add_row(Text(step_of(state)), bar, f"{int(100 * state.fraction):3} %", left)
        self._live.update(line, refresh=True)

    def close(self, done: bool) -> None:
        self._live.stop()


class PlainLines:
    """Now and then a line on standard error: for pipes, log files and schedulers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begun = clock, clock()
        self._step, self._last = "", float("-inf")  # of the last line

    def show(self, state: State) -> None:
        now = self._clock()
        pause = SECONDS_BETWEEN_LINES if state.step == self._step else SECONDS_BEFORE_NEW_STEP
        if now - self._begun < QUIET_SECONDS or now - self._last < pause:
            return
        self._step, self._last = state.step, now
        step = step_of(state)
        parts = [step[0].lower() + step[1:], f"{int(100 * state.fraction)} %"]
        line = ", ".join(filter(None, [*parts, time_left(state.seconds_left)]))
        print(f"midfea: {line}", file=sys.stderr, flush=True)  # noqa: T201

    def close(self, done: bool) -> None:
        pass


class NotebookBar:
    """One output below the cell, which changes; no widgets are needed."""

    def __init__(self) -> None:
        self._begun, self._text = time.monotonic(), ""
        self._handle: Any = None

    def show(self, state: State) -> None:
        if time.monotonic() - self._begun >= NOTEBOOK_SECONDS:
            left = time_left(state.seconds_left)
            parts = (step_of(state), f"{int(100 * state.fraction)} %", left)
            self._put("  ".join(filter(None, parts)), state.fraction)

    def close(self, done: bool) -> None:
        if self._handle is not None:
            seconds = time.monotonic() - self._begun
            self._put(f"{'Done in' if done else 'Stopped after'} {seconds:.0f} s", float(done))

    def _put(self, text: str, fraction: float) -> None:
        if text == self._text:
            return
        from IPython.display import display

        self._text = text
        bar = f'<progress value="{fraction:.3f}" style="vertical-align: middle"></progress>'
        data = {"text/plain": text, "text/html": f"{bar} {html.escape(text)}"}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
