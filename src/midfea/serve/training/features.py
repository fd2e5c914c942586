"""Features of images, kept by the images' ids, so that training again computes those of new images only.

Features belong to a chain (filters and words), which has a name. Each training adds a file with the
features that it computed; files are never rewritten.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from midfea.files import open_regular, replacing
from midfea.serve.store.files import ID_DIGITS

ROWS_PER_READ = 256


class Place(NamedTuple):
    """Where the features of an image lie."""

    file: Path
    row: int
    pixels: str  # a hash of the decoded image: equal for duplicates in files that differ


class KeptFeatures:
    """The features of one chain."""

    def __init__(self, folder: Path, chain: str) -> None:
        self.folder = folder / chain
        self.places: dict[str, Place] = {}
        for file in sorted(self.folder.glob("*.safetensors")):
            if (read := _read_ids(file)) is not None:
                self._note(file, *read)

    def _note(self, file: Path, ids: Sequence[str], pixels: Sequence[str]) -> None:
        for row, (id, content) in enumerate(zip(ids, pixels, strict=True)):
            self.places[id] = Place(file, row, content)

    def add(self, ids: Sequence[str], pixels: Sequence[str], features: NDArray[np.float32]) -> None:
        """Keep the features of new images."""
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(f.stem) for f in self.folder.glob("*.safetensors") if f.stem.isdecimal()]
        file = self.folder / f"{max(numbers, default=-1) + 1:06}.safetensors"
        arrays: dict[str, NDArray[Any]] = {"ids": _packed(ids), "pixels": _packed(pixels)}
        with replacing(file) as temporary:
            save_file(arrays | {"features": features}, temporary)
        self._note(file, ids, pixels)

    def rows(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Features of known images, (n, n_features)."""
        if not ids:
            raise ValueError("no features were asked for")
        places = [self.places[id] for id in ids]
        files = {place.file for place in places}
        features = {file: load_file(file)["features"] for file in files}
        return np.stack([features[place.file][place.row] for place in places])

    def nearest(self, features: NDArray[Any], ids: Sequence[str], n: int) -> list[tuple[str, float]]:
        """The `n` images with the most similar features, and their distances, the nearest first.

        Read in parts: all features may be larger than a server should hold.
        """
        distances: list[tuple[float, str]] = []
        rows_of: dict[Path, dict[int, str]] = {}
        for id in ids:
            if id in self.places:
                rows_of.setdefault(self.places[id].file, {})[self.places[id].row] = id
        for file, ids_by_row in rows_of.items():
            with safe_open(file, framework="numpy") as arrays:
                part = arrays.get_slice("features")
                n_rows, length = part.get_shape()
                if length != features.size:
                    continue  # not of this model
                for start in range(0, n_rows, ROWS_PER_READ):
                    stop = min(start + ROWS_PER_READ, n_rows)
                    lengths = np.linalg.norm(part[start:stop] - features, axis=1)
                    for row, distance in enumerate(lengths.tolist(), start):
                        if row in ids_by_row:
                            distances.append((distance, ids_by_row[row]))
        return [(id, distance) for distance, id in sorted(distances)[:n]]


def _read_ids(file: Path) -> tuple[list[str], list[str]] | None:
    """Ids and hashes of pixels, a pair for each row of features; None: they are computed again."""
    try:
        open_regular(file).close()
        with safe_open(file, framework="numpy") as arrays:
            ids, pixels = (arrays.get_tensor(key) for key in ("ids", "pixels"))
            features = arrays.get_slice("features")
            n_rows, dtype = features.get_shape()[0], features.get_dtype()
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError, LookupError):
        return None
    expected = (n_rows, ID_DIGITS // 2)
    fit = all(rows.shape == expected and rows.dtype == np.uint8 for rows in (ids, pixels))
    return (_unpacked(ids), _unpacked(pixels)) if fit and dtype == "F32" else None


def forget_other_chains(folder: Path, chains: set[str]) -> None:
    """Remove the features of other chains: no model needs them any more."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in chains:
            shutil.rmtree(path, ignore_errors=True)


def _packed(ids: Sequence[str]) -> NDArray[np.uint8]:
    """Ids as an array of bytes, a row for each."""
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8).reshape(-1, ID_DIGITS // 2)


def _unpacked(rows: NDArray[np.uint8]) -> list[str]:
    return [row.tobytes().hex() for row in rows]
