"""The record of a training: what is known of a model beside the model file itself.

It is kept under the id of the model's file, so that it is never shown with another model, and written
before the model file is replaced: one rename makes both current.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from midfea.files import replacing
from midfea.learning.curve import LearningCurve
from midfea.serve.store.files import ID_PATTERN, read_json
from midfea.serve.training.phases import Comparison, TrainingSettings

VERSION = 2
CHAIN_DIGITS = 16

# These become names of files and folders: a record from elsewhere may hold nothing else.
Id = Annotated[str, Field(pattern=ID_PATTERN)]
ChainName = Annotated[str, Field(pattern=f"^([0-9a-f]{{{CHAIN_DIGITS}}})?$")]


@dataclass(frozen=True)
class TrainingRecord:
    """How a model was trained. A model opened from a file has name and time only.

    ids : the images trained on, in the order of the model's `validation_`
    n_left_out : images that could not be read
    series : the series of photos that validation kept together, in words
    chain : name of the filters and words, under which features are kept
    n_learned_from : images that filters and words were learned from
    digest : of all images and labels at the training
    compared : the models of two phases, if both could be compared
    """

    name: str
    trained: datetime
    opened: bool = False
    ids: tuple[Id, ...] = ()
    n_left_out: int = 0
    series: str = ""
    seconds: float | None = None
    ms_per_image: float | None = None
    settings: TrainingSettings | None = None
    chain: ChainName = ""
    n_learned_from: int = 0
    digest: str = ""
    curve: LearningCurve | None = None
    compared: Comparison | None = None

    def write(self, folder: Path, model_id: str) -> None:
        """Keep the record for the model of this id."""
        folder.mkdir(parents=True, exist_ok=True)
        values = {"version": VERSION, "model": model_id, **asdict(self)}
        with replacing(_file(folder, model_id)) as temporary:
            temporary.write_text(json.dumps(values | {"trained": self.trained.isoformat()}))

    @classmethod
    def read(cls, folder: Path, model_id: str) -> TrainingRecord | None:
        """The record of the model of this id; None if there is none that can be read."""
        try:
            values = read_json(_file(folder, model_id))
            if values.pop("version") != VERSION or values.pop("model") != model_id:
                return None
            record: TrainingRecord = TypeAdapter(cls).validate_python(values)
            return record
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def forget_other_records(folder: Path, model_ids: set[str]) -> None:
    """Remove the records of models that have been replaced."""
    kept = {_file(folder, id) for id in model_ids}
    for path in folder.iterdir():
        if path not in kept:
            path.unlink(missing_ok=True)


def _file(folder: Path, model_id: str) -> Path:
    return folder / f"{model_id}.json"
