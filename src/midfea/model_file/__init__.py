"""The `.midfea` model file: safetensors (arrays), whose metadata hold a JSON description.

Loading runs no code and trusts nothing: every array must have the shape that the settings imply, and
what is unknown is refused with a clear message. There is one reader for each version of the format.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from midfea.files import replacing
from midfea.model_file import v1, v2
from midfea.model_file.saved import ModelFileError, SavedModel

READERS = {1: v1.read, 2: v2.read}
VERSION = 2


def save_model(saved: SavedModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model; the file appears whole or not at all."""
    description, arrays = v2.write(saved)
    description |= {"format": "midfea", "version": VERSION}
    contiguous = {key: np.asarray(value, order="C") for key, value in arrays.items()}
    with replacing(path) as temporary:
        save_file(contiguous, temporary, {"midfea": json.dumps(description, allow_nan=False)})


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """The model of a file; ModelFileError, saying what to do, if it cannot be read."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such model file")
    description, arrays = _read(Path(path))
    try:
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
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise ModelFileError(f"{path}: the model's description is damaged ({error!r})") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with safe_open(path, framework="numpy") as file:
            description = json.loads((file.metadata() or {}).get("midfea", "null"))
            if not isinstance(description, dict) or description.get("format") != "midfea":
                raise ModelFileError(f"{path}: a safetensors file, but not a midfea model")
            version = description.get("version")
            if not isinstance(version, int) or version not in READERS:
                raise ModelFileError(
                    f"{path}: written in format {version!r}, this midfea reads formats "
                    f"{', '.join(map(str, READERS))}: install a newer midfea (pip install -U midfea)"
                )
            return description, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise ModelFileError(
            f"{path}: not a midfea model, or damaged, or cut short ({error}): save it again"
        ) from None


__all__ = ["ModelFileError", "SavedModel", "read_model", "save_model"]
