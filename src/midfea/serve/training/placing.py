"""The models of a workspace: which there are, and putting a new one in its place."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from midfea.estimators.classifier import MidFeaClassifier
from midfea.serve.store.files import file_id
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import forget_other_chains
from midfea.serve.training.phases import Comparison
from midfea.serve.training.record import TrainingRecord, forget_other_records


class Known(NamedTuple):
    """A model of an earlier training, its id and its record."""

    path: Path
    id: str
    record: TrainingRecord


@dataclass(frozen=True)
class Trained:
    """The model of a phase in its place.

    labels : of its training images, by id
    correct : of the images in validation, by id, whether the prediction is correct
    """

    record: TrainingRecord
    id: str
    labels: dict[str, str]
    correct: dict[str, bool]


def known_models(workspace: Workspace) -> list[Known]:
    """The present model and the first look before it, where they have a record."""
    found = []
    for path in (workspace.model_file.path, workspace.first_look.path):
        with suppress(OSError):  # there is none
            id = file_id(path)
            if (record := TrainingRecord.read(workspace.results_folder, id)) is not None:
                found.append(Known(path, id, record))
    return found


def put_in_place(
    workspace: Workspace, model: MidFeaClassifier, record: TrainingRecord, before: Trained | None
) -> str:
    """One rename makes model and record current; before it, nothing has changed. Returns the model's id.

    The model of the phase before is kept: with its filters and words the next first look is quick.
    """
    path = workspace.incoming.new()
    model.save(path)
    id = file_id(path)
    record.write(workspace.results_folder, id)
    if before is not None and file_id(workspace.model_file.path) == before.id:
        workspace.first_look.replace(_copy(workspace))
    workspace.model_file.replace(path)
    _forget_unused(workspace)
    return id


def stay(workspace: Workspace, before: Trained, comparison: Comparison) -> Trained:
    """The model of the phase before stays, and its record says why."""
    record = replace(before.record, compared=comparison)
    record.write(workspace.results_folder, before.id)
    if file_id(workspace.model_file.path) == before.id:
        workspace.model_file.replace(
            _copy(workspace)
        )  # a changed file: the server reads its record again
    _forget_unused(workspace)
    return replace(before, record=record)


def _copy(workspace: Workspace) -> Path:
    path = workspace.incoming.new()
    shutil.copyfile(workspace.model_file.path, path)
    return path


def _forget_unused(workspace: Workspace) -> None:
    """Remove the records and features that belong to no model any more."""
    known = known_models(workspace)
    forget_other_records(workspace.results_folder, {model.id for model in known})
    forget_other_chains(workspace.features_folder, {model.record.chain for model in known})
