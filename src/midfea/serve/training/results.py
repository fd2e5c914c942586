"""What is known of a model beside the model itself: how it was trained, and what was held out.

Kept under the id of the model's file, so that it can never be shown with another model, and written
before the model takes its place: that one rename makes both the current ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from midfea.files import replacing

VERSION = 1
ID_BYTES = 10  # 20 hex digits


@dataclass(frozen=True)
class Results:
    """Of one model.

    about : facts to be shown, as JSON knows them
    ids, labels : the images learned from and their class numbers
    held_out, predicted, probabilities : indices of those that were held out, what was said of them
    """

    about: dict[str, Any]
    ids: list[str]
    labels: NDArray[np.int32]
    held_out: NDArray[np.int32]
    predicted: NDArray[np.int32]
    probabilities: NDArray[np.float32]


def opened(name: str, when: str) -> Results:
    """Of a model that came from elsewhere: nothing is known but its file's name."""
    nothing = np.zeros(0, dtype=np.int32)
    about = {"name": name, "trained": when, "opened": True}
    return Results(about, [], nothing, nothing, nothing, np.zeros((0, 0), dtype=np.float32))


def file_id(path: Path) -> str:
    """The id of a file: that of its bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[: 2 * ID_BYTES]


def write_results(folder: Path, model_id: str, results: Results) -> None:
    """Keep results for the model of that id."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, NDArray[Any]] = {
        "ids": pack_ids(results.ids),
        "labels": results.labels,
        "held_out": results.held_out,
        "predicted": results.predicted,
        "probabilities": results.probabilities,
    }
    about = json.dumps({"version": VERSION, "model": model_id, **results.about})
    with replacing(folder / f"{model_id}.safetensors") as temporary:
        save_file(arrays, temporary, {"about": about})


def read_results(folder: Path, model_id: str) -> Results | None:
    """Those of the model of that id; None if there are none that can be read."""
    try:
        with safe_open(folder / f"{model_id}.safetensors", framework="numpy") as file:
            about = json.loads((file.metadata() or {})["about"])
            if about["version"] != VERSION or about["model"] != model_id:
                return None
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            return Results(about, unpack_ids(arrays.pop("ids")), **arrays)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def forget_other_results(folder: Path, model_id: str) -> None:
    """Remove the results of models that are no more."""
    for path in folder.iterdir():
        if path.name != f"{model_id}.safetensors":
            path.unlink(missing_ok=True)


def pack_ids(ids: Sequence[str]) -> NDArray[np.uint8]:
    """Ids as an array (n, 10)."""
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8).reshape(-1, ID_BYTES)


def unpack_ids(packed: NDArray[np.uint8]) -> list[str]:
    """The ids of such an array."""
    return [row.tobytes().hex() for row in packed]
