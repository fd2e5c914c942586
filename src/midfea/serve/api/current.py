"""The model of the workspace and what is known of it, read again whenever the file changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from midfea import load
from midfea.model_file.v1 import ModelFileError
from midfea.serve.errors import Clash, Refused
from midfea.serve.store.index import Signature, signature
from midfea.serve.store.names import file_name
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.results import Results, file_id, opened, read_results, write_results

NONE = "there is no model yet: train one, or open one"
T = TypeVar("T")


class Current(NamedTuple):
    """A classifier, the id of its file, and what is known of its training."""

    model: Any
    id: str
    results: Results


class CurrentModel:
    """One model in memory at a time; it answers one question at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._loading, self._using = threading.Lock(), threading.Lock()
        self._seen: Signature | None = None
        self._current: Current | None = None
        self._problem = NONE

    def get(self) -> Current | None:
        """The model, or None if there is none that can be read."""
        with self._loading:
            try:
                seen = signature(self.workspace.model_file.stat())
            except OSError:
                seen = None
            if seen != self._seen or seen is None:
                self._current, self._problem = None, NONE
                if seen is not None:
                    self._load()
                if seen != self._seen:
                    self.workspace.changed()
                self._seen = seen
            return self._current

    def problem(self) -> str | None:
        """Why there is a model file but no model; None if all is well."""
        with self._loading:
            return None if self._current is not None or self._problem == NONE else self._problem

    def need(self) -> Current:
        """The model; `Clash` saying what to do if there is none."""
        current = self.get()
        if current is None:
            raise Clash(self._problem)
        return current

    def use(self, work: Callable[[Current], T]) -> T:
        """Work with the model while nobody else does: its threads would be in each other's way."""
        current = self.need()
        with self._using:
            return work(current)

    def open(self, name: str, stream: IO[bytes], most_bytes: int) -> Current:
        """Take a model file from elsewhere; `Refused` with the reason if it is none."""
        name = file_name(name)
        with self.workspace.incoming.receive(stream, most_bytes) as received:
            try:
                model = load(received.path)
            except (ModelFileError, OSError) as error:
                reason = str(error).removeprefix(f"{received.path}: ")
                raise Refused(
                    f"{reason}. Choose a file that midfea wrote, such as model.midfea"
                ) from None
            if not hasattr(model, "predict_proba"):
                raise Refused(f"the file holds a {type(model).__name__}: a classifier is needed")
            folder = self.workspace.hidden / "results"
            if read_results(folder, received.id) is None:
                write_results(folder, received.id, opened(name, _now()))
            self.workspace.replace_model(received.path)
        return self.need()

    def warm_up(self) -> None:
        """The first answer compiles and reads a lot: better before anybody waits for it."""
        try:
            blank = np.random.RandomState(0).randint(0, 255, (64, 64)).astype(np.uint8)
            self.use(lambda current: current.model.explain(blank))
        except Refused:
            pass

    def _load(self) -> None:
        file = self.workspace.model_file
        try:
            model, id = load(file), file_id(file)
            if not hasattr(model, "predict_proba"):
                raise ModelFileError(f"{file}: holds a {type(model).__name__}, not a classifier")
        except (ModelFileError, OSError) as error:
            self._problem = f"the model cannot be read: {error}"
            return
        model.n_jobs = 1
        results = read_results(self.workspace.hidden / "results", id)
        if results is None:  # put there by hand, or by the command
            changed = datetime.fromtimestamp(file.stat().st_mtime).astimezone()
            results = opened(file.name, changed.isoformat(timespec="seconds"))
        self._current = Current(model, id, results)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def needs_results(current: Current) -> Results:
    """What was held out when the model was trained; `Clash` if that is not known."""
    if current.results.about["opened"]:
        raise Clash(
            "this model was opened from a file, so nothing is known of its training: train to see more"
        )
    return current.results
