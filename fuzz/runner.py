"""Runs a harness in processes of its own and collects what it finds: errors, crashes, hangs, memory."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import child
import scratch

HERE = Path(__file__).parent
FINDINGS = HERE / "findings"
WARM_UP_SECONDS = 300.0  # importing, compiling and fitting, on a busy machine
GRACE_SECONDS = 15.0  # for the watchdog in the process to end it, before the runner does


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes
    ----------
    name : of the harness, or of a module with a function `case`
    seed, first_case : of the first case; others follow
    max_cases, seconds : the run ends with whichever comes first
    case_seconds : a case that takes longer is a finding
    max_findings : of different kinds; then the run ends
    findings : where inputs and messages are written
    """

    name: str
    seed: int = 0
    first_case: int = 0
    max_cases: int = 10**9
    seconds: float = 60.0
    case_seconds: float = 5.0
    max_findings: int = 20
    findings: Path = FINDINGS


@dataclass
class Finding:
    """A case that went wrong: which one, and how."""

    name: str
    case: str  # "SEED:N", or the name of a file of the corpus
    message: str

    @property
    def last_line(self) -> str:
        """The message in one line."""
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    @property
    def kind(self) -> str:
        """Equal for findings that have the same cause, as far as one can tell."""
        places = [line for line in self.message.splitlines() if line.lstrip().startswith("File ")]
        error = self.last_line.partition(":")[0]
        return re.sub(r"\d+", "", f"{places[-1:]} {error}")


@dataclass
class Outcome:
    """What a run did."""

    name: str
    cases: int = 0
    seconds: float = 0.0  # without the warm-up
    findings: list[Finding] = field(default_factory=list)  # the first of each kind
    n_repeated: int = 0  # more of the same kinds


class _Stream:
    """Lines of a process, with a limit on how long to wait for one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._handle, self._rest = process.stdout.fileno(), b""
        self._lines: list[str] = []

    def next(self, seconds: float) -> str | None:
        """The next line; "" at the end; None if none came in time."""
        end = time.monotonic() + seconds
        while not self._lines:
            if not select.select([self._handle], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            data = os.read(self._handle, 65536)
            if not data:
                return ""
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._lines = [line.decode() for line in whole]
        return self._lines.pop(0)


def run(plan: Plan) -> Outcome:
    """Run until the time, the cases or the patience is at an end."""
    outcome, first = Outcome(plan.name), plan.first_case
    while first is not None and len(outcome.findings) < plan.max_findings:
        left = plan.seconds - outcome.seconds
        if first > plan.first_case and (left <= 0 or first >= plan.max_cases):
            break
        first = _run_process(plan, first, max(left, 0.0), outcome)
    return outcome


def _run_process(plan: Plan, first: int, seconds: float, outcome: Outcome) -> int | None:
    """Run one process to its end; the case to go on with, or None if all is done."""
    folder = Path(tempfile.mkdtemp(prefix="midfea-fuzz-", dir=scratch.memory()))
    numbers = (plan.seed, first, plan.max_cases, seconds, plan.case_seconds)
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), plan.name, *map(str, numbers)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment() | {scratch.FOLDER_VARIABLE: str(folder)},
            start_new_session=True,
        )
    try:
        watch = _Watch(plan, outcome, folder, first)
        return watch.follow(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    source = str(HERE.parent / "src")
    known = os.environ.get("PYTHONPATH")
    paths = source if known is None else f"{source}{os.pathsep}{known}"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, "PYTHONPATH": paths, "PYTHONFAULTHANDLER": "1", **threads}


class _Watch:
    """Follows one process from line to line."""

    def __init__(self, plan: Plan, outcome: Outcome, folder: Path, first: int) -> None:
        self._plan, self._outcome, self._folder = plan, outcome, folder
        self._now, self._next, self._ready = "", first, False

    def follow(self, process: subprocess.Popen[bytes]) -> int | None:
        """To its end; the case to go on with, or None if all is done."""
        lines, begun = _Stream(process), time.monotonic()
        while True:
            line = lines.next(
                self._plan.case_seconds + GRACE_SECONDS if self._ready else WARM_UP_SECONDS
            )
            if line is None:
                process.kill()
            if not line:
                break
            if line == "ready":
                self._ready, begun = True, time.monotonic()
            elif line == "done" or self._take(line):
                self._outcome.seconds += time.monotonic() - begun
                return None
        self._outcome.seconds += time.monotonic() - begun
        self._add(self._how_it_ended(process.wait()))
        return self._next if self._ready else None

    def _take(self, line: str) -> bool:
        """Whether the run has found enough."""
        kind, _, rest = line.partition(" ")
        if kind == "finding":
            self._add(*json.loads(rest))
            return len(self._outcome.findings) >= self._plan.max_findings
        self._outcome.cases += 1
        if kind == "case":
            self._next = int(rest) + 1
            self._now = f"{self._plan.seed}:{rest}"
        else:
            self._now = rest
        return False

    def _how_it_ended(self, code: int) -> str:
        trace = (self._folder / child.TRACE).read_text() if (self._folder / child.TRACE).exists() else ""
        errors = (self._folder / "stderr").read_text(errors="replace")
        if not self._ready:
            return f"{errors}\nthe harness could not begin"
        if trace.startswith("Timeout"):
            return f"{trace}\ntook more than {self._plan.case_seconds:g} s"
        if code == -signal.SIGKILL and not trace:
            return f"{errors}\nkilled: it hung, or took all memory"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{errors}\n{trace}\ncrashed ({how})"

    def _add(self, message: str, input: str = scratch.INPUT) -> None:
        finding = Finding(self._plan.name, self._now or "start", message)
        if finding.kind in {each.kind for each in self._outcome.findings}:
            self._outcome.n_repeated += 1
            (self._folder / input).unlink(missing_ok=True)
            return
        self._outcome.findings.append(finding)
        self._plan.findings.mkdir(parents=True, exist_ok=True)
        stem = self._plan.findings / f"{finding.name}-{finding.case}".replace(":", "-")
        stem.with_name(stem.name + ".txt").write_text(message)
        kept = self._folder / input
        if kept.exists():
            shutil.copyfile(kept, stem.with_name(stem.name + ".input"))
