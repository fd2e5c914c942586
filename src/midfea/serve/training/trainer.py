"""The training under way: started, watched and cancelled from the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import IO, Any

from midfea.extras import why_not
from midfea.serve.errors import Clash, Refused
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.fitting import check_classes
from midfea.serve.training.phases import TrainingSettings

NICENESS = 5
PATIENCE_SECONDS = 3.0  # until a process that was asked to end is killed


@dataclass
class Progress:
    """How far a training is.

    presets : of its phases; `phase` counts them, and `n_trained` of them have ended
    """

    presets: list[str]
    state: str  # running, done, failed or cancelled
    step: str
    fraction: float
    error: str | None
    seconds_left: float | None = None  # when it was reported
    reported: float = 0.0  # s, of the monotonic clock
    phase: int = 0
    n_trained: int = 0

    def json(self) -> dict[str, Any]:
        """As the page gets it."""
        return {
            "state": self.state,
            "step": self.step,
            "fraction": self.fraction,
            "seconds_left": self._seconds_left(),
            "error": self.error,
            "presets": self.presets,
            "phase": self.phase,
            "trained": self.n_trained,
        }

    def _seconds_left(self) -> float | None:
        if self.state != "running" or self.seconds_left is None:
            return None
        return round(max(self.seconds_left - (time.monotonic() - self.reported), 0.0), 1)


class Trainer:
    """At most one training at a time, in a process of its own."""

    def __init__(self, workspace: Workspace, load_model: Callable[[], None]) -> None:
        self.workspace, self._load_model = workspace, load_model
        self._mutex = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False
        self.progress: Progress | None = None

    def start(self, settings: TrainingSettings) -> Progress:
        """Train on all images; `Refused` with the reason if that is not possible."""
        with self._mutex:
            if self.progress is not None and self.progress.state == "running":
                raise Clash("a training is under way: wait for its end, or cancel it")
            if settings.finetune and (reason := why_not("torch")):
                raise Refused(f"fine-tuning cannot be done here: {reason}")
            self.workspace.watch.refresh(closely=True)
            check_classes(self.workspace.images.all())
            self.workspace.watch.save()
            errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed by _watch
            self._cancelled = False
            presets = [str(each.preset) for each in settings.phases()]
            self.progress = Progress(presets, "running", "Starting", 0.0, None)
            command = [sys.executable, "-P", "-m", "midfea.serve.training.job", str(self.workspace.root)]
            self._process = subprocess.Popen(
                [*command, json.dumps(asdict(settings))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            if hasattr(os, "setpriority"):  # the page stays quick
                # At once: threads that libraries start inherit it only from then on.
                os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)
            watched = (self._process, errors, self.progress)
            threading.Thread(target=self._watch, args=watched, daemon=True).start()
            return self.progress

    def cancel(self) -> Progress:
        """End the training; a phase that has not ended changes nothing."""
        with self._mutex:
            process, progress = self._process, self.progress
            if process is None or progress is None or progress.state != "running":
                raise Clash("no training is under way")
            self._cancelled = True
        _end(process)
        return progress

    def close(self) -> None:
        """End the training with the server."""
        with self._mutex:
            process, self._cancelled = self._process, True
        if process is not None:
            _end(process)

    def _watch(self, process: subprocess.Popen[str], errors: IO[str], progress: Progress) -> None:
        assert process.stdout is not None
        with process, errors:
            for line in process.stdout:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                progress.reported = time.monotonic()
                if "step" in message:
                    progress.step, progress.fraction = message["step"], message["fraction"]
                    progress.seconds_left = message["seconds_left"]
                progress.phase = message.get("phase", progress.phase)
                if "trained" in message:
                    self._load_model()  # before it is told: then the model shown is the new one
                    progress.n_trained = message["trained"] + 1
                progress.error = message.get("error", progress.error)
            process.wait()
            errors.seek(0)
            lines = [line.strip() for line in errors if line.strip()]
        if progress.n_trained == len(progress.presets):
            progress.fraction, progress.step, progress.state = 1.0, "Done", "done"
        elif self._cancelled:
            progress.step, progress.state = "Cancelled", "cancelled"
        else:
            reason = lines[-1] if lines else f"it ended with status {process.returncode}"
            progress.error = progress.error or f"training stopped unexpectedly: {reason}"
            progress.step, progress.state = "Failed", "failed"
        self.workspace.images.touch()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
