"""The process in which a harness runs: it may crash or hang, the runner sees it.

    python fuzz/child.py HARNESS SEED FIRST_CASE MAX_CASES SECONDS CASE_SECONDS

Lines on standard output: `ready`, `case N`, `corpus NAME`, `finding [MESSAGE, INPUT]`, `done`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import scratch
from harness import Harness, corpus, random_of

MAX_MORE_MEMORY = 1_000_000  # kB above what the process had before its first case
TRACE = "traceback"


def main() -> None:
    name, *numbers = sys.argv[1:]
    seed, first, n_cases = map(int, numbers[:3])
    seconds, case_seconds = map(float, numbers[3:])
    # What the code under test prints must not be taken for our lines.
    say = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    trace = (scratch.folder() / TRACE).open("w")
    faulthandler.enable(trace)
    harness = Harness.load(name)
    harness.warm_up()
    replay, tried = harness.replay, []
    if replay is not None and first == 0:
        tried = [(f"corpus {path.name}", _replaying(replay, path)) for path in corpus(name)]
    say.write("ready\n")
    most = _memory() + MAX_MORE_MEMORY
    end = time.monotonic() + seconds
    for case in range(-len(tried), n_cases - first):
        about, work = tried[case] if case < 0 else (f"case {first + case}", None)
        if case > 0 and time.monotonic() > end:
            break
        say.write(about + "\n")
        faulthandler.dump_traceback_later(case_seconds, exit=True, file=trace)
        message = _tried(work or (lambda n=first + case: harness.case(random_of(name, seed, n))))
        faulthandler.cancel_dump_traceback_later()
        if message is None and _memory() > most:
            message = f"took more than {MAX_MORE_MEMORY / 1e6:g} GB"
            most = _memory() + MAX_MORE_MEMORY
        if message is not None:
            say.write(f"finding {json.dumps([message, scratch.kept()])}\n")
    say.write("done\n")
    say.flush()


def _replaying(replay: Callable[[bytes], None], path: Path) -> Callable[[], None]:
    return lambda: replay(path.read_bytes())


def _tried(work: Callable[[], None]) -> str | None:
    """What went wrong, or None."""
    try:
        work()
    except (Exception, SystemExit):
        return traceback.format_exc(limit=-8)
    return None


def _memory() -> int:
    """The most that this process has had, in kB."""
    status = Path("/proc/self/status").read_text()  # ru_maxrss begins with the parent's
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
