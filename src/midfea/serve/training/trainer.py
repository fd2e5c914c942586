"""The training under way: started, watched and cancelled from the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import IO, Any

from midfea.serve.errors import Clash
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.job import Settings, check_classes

NICENESS = 5
PATIENCE = 3.0  # s until a process that was asked to end is made to
TELLING = 0.03  # of the work: the time left is not told before so much is done


@dataclass
class Progress:
    """How far a training is."""

    state: str  # running, done, failed or cancelled
    step: str
    fraction: float
    error: str | None
    begun: float
    heard: float = 0.0

    def shown(self) -> dict[str, Any]:
        """As JSON knows it."""
        return {
            "state": self.state,
            "step": self.step,
            "fraction": self.fraction,
            "seconds_left": self._seconds_left(),
            "error": self.error,
        }

    def _seconds_left(self) -> float | None:
        if self.state != "running" or self.fraction < TELLING:
            return None
        spent = self.heard - self.begun
        left = spent * (1 - self.fraction) / self.fraction - (time.monotonic() - self.heard)
        return round(max(left, 0.0), 1)


class Trainer:
    """At most one training at a time, in a process of its own."""

    def __init__(self, workspace: Workspace, changed: Callable[[], None]) -> None:
        self.workspace, self._changed = workspace, changed
        self._mutex = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False
        self.progress: Progress | None = None

    def start(self, settings: Settings) -> Progress:
        """Train on all images; `Refused` if that cannot be."""
        with self._mutex:
            if self.progress is not None and self.progress.state == "running":
                raise Clash("a training is under way: wait for its end, or cancel it")
            self.workspace.refresh(closely=True)
            check_classes(self.workspace.all_images())
            self.workspace.save_index()
            self._cancelled = False
            self.progress = Progress("running", "Starting", 0.0, None, time.monotonic())
            command = [sys.executable, "-P", "-m", "midfea.serve.training.job", str(self.workspace.root)]
            self._process = subprocess.Popen(
                [*command, json.dumps(asdict(settings))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if hasattr(os, "setpriority"):  # whoever looks at the page goes first
                # At once: later it would not reach the threads that libraries start, and those would
                # hold up the main one.
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
            threading.Thread(
                target=self._watch, args=(self._process, self.progress), daemon=True
            ).start()
            return self.progress

    def cancel(self) -> Progress:
        """End the training; the model stays as it was."""
        with self._mutex:
            process, progress = self._process, self.progress
            if process is None or progress is None or progress.state != "running":
                raise Clash("no training is under way")
            self._cancelled = True
        _end(process)
        return progress

    def close(self) -> None:
        """No process is left behind."""
        with self._mutex:
            process, self._cancelled = self._process, True
        if process is not None:
            _end(process)

    def _watch(self, process: subprocess.Popen[str], progress: Progress) -> None:
        errors: list[str] = []
        assert process.stdout is not None and process.stderr is not None
        listener = threading.Thread(target=_last_lines, args=(process.stderr, errors), daemon=True)
        listener.start()
        done = False
        with process:
            for line in process.stdout:
                try:
                    told = json.loads(line)
                except ValueError:
                    continue
                progress.heard = time.monotonic()
                if "step" in told:
                    progress.step, progress.fraction = told["step"], told["fraction"]
                done = done or "model" in told
                progress.error = told.get("error", progress.error)
            process.wait()
            listener.join(PATIENCE)
        if done:
            progress.fraction, progress.step, progress.state = 1.0, "Done", "done"
        elif self._cancelled:
            progress.step, progress.state = "Cancelled", "cancelled"
        else:
            said = errors[-1] if errors else f"it ended with status {process.returncode}"
            progress.error = progress.error or f"training stopped unexpectedly: {said}"
            progress.step, progress.state = "Failed", "failed"
        self._changed()


def _last_lines(stream: IO[str], kept: list[str]) -> None:
    for line in stream:
        if line.strip():
            kept[:] = [*kept[-4:], line.strip()]


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
