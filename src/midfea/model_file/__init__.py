"""The `.midfea` model file: safetensors (arrays), whose metadata hold a JSON description.

Loading runs no code and trusts nothing: the file must be what was written (`midfea.checksum`), every
number and array must keep its rule (`schema`) and have the shape that the settings imply, and what is
unknown is refused with a clear message. There is one reader for each version of the format; format 3 is
format 2 with a checksum, format 4 has more parameters (`ADDED`) and `belonging`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from midfea import checksum
from midfea.files import open_regular, replacing
from midfea.model_file import v1, v2
from midfea.model_file.saved import SavedModel
from midfea.model_file.schema import MAX_FILE_BYTES, MAX_HEADER_BYTES, ModelFileError

READERS = {1: v1.read, 2: v2.read, 3: v2.read, 4: v2.read}
VERSION = 4
FIRST_SEALED_VERSION = 3
# The format that first has a parameter (of all estimators, or of one), and what a file without it means.
ALL = "all estimators"
ADDED: dict[int, dict[str, dict[str, Any]]] = {
    2: {
        ALL: {"device": None, "precision": "exact"},
        "MidFeaClassifier": {
            "finetune": False,
            "augment": None,
            "network": None,
            "keep_features": False,
        },
    },
    4: {ALL: {"colour": None}, "MidFeaClassifier": {"class_weight": None, "unknown": None}},
}
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "BOOL": "?"}


def save_model(saved: SavedModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    description, arrays = v2.write(saved)
    description = {"checksum": checksum.EMPTY, "format": "midfea", "version": VERSION} | description
    contiguous = {key: np.asarray(value, order="C") for key, value in arrays.items()}
    content = save(contiguous, {"midfea": json.dumps(description, allow_nan=False)})
    with replacing(path) as temporary:
        temporary.write_bytes(checksum.seal(content))


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """The model of a file; ModelFileError, saying what to do, if it cannot be read."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such model file")
    try:
        description, arrays = _parse(_content(path))
        _add_parameters(description)
        saved = READERS[description["version"]](description, arrays)
        if arrays:
            listed = ", ".join(sorted(arrays))
            raise ModelFileError(
                f"holds arrays not known ({listed}): saved by another version of midfea; train again"
            )
        saved.check_shapes()
        return saved
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # whatever a description can be made to do
        raise ModelFileError(f"{path}: the model's description is damaged ({error!r:.200})") from None


def _add_parameters(description: dict[str, Any]) -> None:
    """Give an old file's parameters those that its format does not have."""
    for version, by_estimator in ADDED.items():
        if description["version"] < version:
            added = by_estimator[ALL] | by_estimator.get(description["class"], {})
            for part in ("params", "settings"):
                description[part] = added | description[part]


def format_of(path: str | os.PathLike[str]) -> int:
    """The number of the format in which a model file is written."""
    return int(_parse(_content(path))[0]["version"])


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > MAX_FILE_BYTES:
                raise ModelFileError(f"has {n_bytes} bytes, more than any model")
            return file.read(n_bytes)
    except OSError as error:
        raise ModelFileError(f"cannot be read ({error.strerror or error})") from None


def _parse(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Description and arrays of a file."""
    description, entries = _unpacked(content)
    if not isinstance(description, dict) or description.get("format") != "midfea":
        raise ModelFileError("a safetensors file, but not a midfea model")
    version = description.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version not in READERS:
        raise ModelFileError(
            f"written in format {version!r:.20}, this midfea reads formats "
            f"{', '.join(map(str, READERS))}: install a newer midfea (pip install -U midfea)"
        )
    sealed = version >= FIRST_SEALED_VERSION or "checksum" in description
    if sealed and checksum.is_sound(content) is not True:
        raise ModelFileError(
            "damaged: its checksum does not agree with its content; copy it again, or train again"
        )
    return description, {key: _array(key, **entry) for key, entry in entries}


def _unpacked(content: bytes) -> tuple[Any, list[tuple[str, Any]]]:
    """The JSON description of the header, and the arrays as safetensors finds them."""
    try:
        n_bytes = int.from_bytes(content[:8], "little")
        if len(content) < 8 or n_bytes > min(len(content), MAX_HEADER_BYTES):
            raise ValueError("the header is longer than the file")
        metadata = json.loads(content[8 : 8 + n_bytes]).get("__metadata__", {})
        return json.loads(metadata.get("midfea", "null")), deserialize(content)
    except (ValueError, AttributeError, TypeError, RecursionError, SafetensorError) as error:
        raise ModelFileError(
            f"not a midfea model, or damaged, or cut short ({error!s:.200}): save it again"
        ) from None


def _array(name: str, dtype: str, shape: list[int], data: bytes | bytearray) -> NDArray[Any]:
    if dtype not in DTYPES:
        raise ModelFileError(f"the array {name!r} holds {dtype}, not one of {', '.join(DTYPES)}")
    array = np.frombuffer(data, dtype=DTYPES[dtype]).reshape(shape)
    return np.require(array, requirements=["A", "W"])


__all__ = ["ModelFileError", "SavedModel", "format_of", "read_model", "save_model"]
