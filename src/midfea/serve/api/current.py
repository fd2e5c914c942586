"""The model of the workspace, loaded again whenever its file changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import IO, NamedTuple, TypeVar

import numpy as np

from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.validation import Validation
from midfea.pictures.limits import ImageError
from midfea.serve.errors import Clash, Refused
from midfea.serve.settings import DEFAULTS
from midfea.serve.store.files import Signature, file_id
from midfea.serve.store.model_file import load_classifier
from midfea.serve.store.names import file_name
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.record import TrainingRecord
from midfea.serve.training.trial import try_model

NO_MODEL = "there is no model yet: train one, or open one"
T = TypeVar("T")


class LoadedModel(NamedTuple):
    """A classifier, the id of its file, and the record of its training."""

    model: MidFeaClassifier
    id: str
    record: TrainingRecord

    @property
    def validation(self) -> Validation | None:
        """The predictions for validation images, of the model file; None if there are none."""
        return self.model.validation_ if len(self.model.validation_) else None


class ModelState(NamedTuple):
    """The model or None; why a model file cannot be read, or None; whether a load is under way."""

    loaded: LoadedModel | None
    problem: str | None = None
    loading: bool = False


class CurrentModel:
    """One model in memory at a time; it answers one question at a time."""

    def __init__(self, workspace: Workspace, trial_seconds: float = DEFAULTS.trial_seconds) -> None:
        self.workspace, self._trial_seconds = workspace, trial_seconds
        self.loader = ThreadPoolExecutor(1, "midfea-load")  # all loads, one after the other
        self._mutex, self._using = threading.Lock(), threading.Lock()
        self._signature: Signature | None = None
        self._load: Future[ModelState] | None = None
        self._state = ModelState(None)  # of the last load that ended

    def state(self, patience: float | None = None) -> ModelState:
        """The model, waiting at most `patience` seconds for a load under way; None waits for its end."""
        with self._mutex:
            signature = self.workspace.model_file.signature()
            if self._load is None or signature != self._signature:
                self._signature = signature
                self._load = self.loader.submit(self._read, signature is not None)
            load = self._load
        try:
            return load.result(patience)
        except TimeoutError:
            return self._state._replace(loading=True)

    def get(self) -> LoadedModel | None:
        """The model, or None if there is none that can be read."""
        return self.state().loaded

    def need(self) -> LoadedModel:
        """The model; `Clash` saying what to do if there is none."""
        loaded, problem, _ = self.state()
        if loaded is None:
            raise Clash(problem or NO_MODEL)
        return loaded

    def use(self, work: Callable[[LoadedModel], T]) -> T:
        """Work with the model while nobody else does: the threads would slow each other down."""
        loaded = self.need()
        with self._using:
            return work(loaded)

    def open(self, name: str, stream: IO[bytes], max_bytes: int) -> LoadedModel:
        """Replace the model by a file from elsewhere.

        `Refused` with the reason if it holds no model, or one that fails a trial in a process of its
        own: then the model of before stays.
        """
        name = file_name(name)
        with self.workspace.incoming.receive(stream, max_bytes) as received:
            try:
                try_model(received.path, self._trial_seconds)
            except Refused as error:
                raise Refused(
                    f"{error}. Choose a file that midfea wrote, such as model.midfea"
                ) from None
            folder = self.workspace.results_folder
            if TrainingRecord.read(folder, received.id) is None:
                TrainingRecord(name, datetime.now().astimezone(), opened=True).write(folder, received.id)
            self.workspace.model_file.replace(received.path)
        return self.need()

    def warm_up(self) -> None:
        """Explain one image: the first one compiles and reads a lot, and nobody should wait for that."""
        noise = np.random.RandomState(0).randint(0, 255, (64, 64)).astype(np.uint8)
        with suppress(Refused, ImageError):  # there is no model, or it needs larger images
            self.use(lambda loaded: loaded.model.explain(noise))

    def _read(self, exists: bool) -> ModelState:
        before = self._state
        try:
            self._state = ModelState(self._loaded() if exists else None)
        except Exception as error:  # whatever a file can be made to do: the page says it, and goes on
            reason = str(error) or type(error).__name__
            self._state = ModelState(None, f"the model cannot be read: {reason}")
        if self._state != before:
            self.workspace.images.touch()
        return self._state

    def _loaded(self) -> LoadedModel:
        path = self.workspace.model_file.path
        id = file_id(path)
        record = TrainingRecord.read(self.workspace.results_folder, id)
        if record is None:  # put there by hand, or by the command
            try_model(path, self._trial_seconds)
        model = load_classifier(path)
        model.n_jobs = 1
        if record is None or not _fits(record, model):
            changed = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
            record = TrainingRecord(path.name, changed, opened=True)
        return LoadedModel(model, id, record)


def _fits(record: TrainingRecord, model: MidFeaClassifier) -> bool:
    """Whether the record names every image that the model's validation speaks of."""
    indices = model.validation_.indices
    return record.opened or not len(indices) or int(indices.max()) < len(record.ids)


def needs_record(loaded: LoadedModel) -> TrainingRecord:
    """The record of the model's training; `Clash` if it was trained elsewhere."""
    if loaded.record.opened:
        raise Clash(
            "this model was opened from a file, and its training images are not known here: "
            "train to see more"
        )
    return loaded.record
