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
from safetensors.numpy import save_file

from midfea.files import open_regular, replacing
from midfea.pictures.likeness import N_VALUES
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

    def add(
        self,
        ids: Sequence[str],
        pixels: Sequence[str],
        prints: NDArray[np.float32],
        features: NDArray[np.float32],
    ) -> None:
        """Keep the features of new images, and their fingerprints (`midfea.pictures.likeness`)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = [int(f.stem) for f in self.folder.glob("*.safetensors") if f.stem.isdecimal()]
        file = self.folder / f"{max(numbers, default=-1) + 1:06}.safetensors"
        arrays: dict[str, NDArray[Any]] = {"ids": _packed(ids), "pixels": _packed(pixels)}
        with replacing(file) as temporary:
            save_file(arrays | {"prints": prints, "features": features}, temporary)
        self._note(file, ids, pixels)

    def rows(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Features of known images, (n, n_features)."""
        return self._stacked(ids, "features")

    def prints(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Fingerprints of known images, a row for each."""
        return self._stacked(ids, "prints")

    def _stacked(self, ids: Sequence[str], name: str) -> NDArray[np.float32]:
        if not ids:
            raise ValueError(f"no {name} were asked for")
        places = [self.places[id] for id in ids]
        kept = {file: _load_array(file, name) for file in {place.file for place in places}}
        return np.stack([kept[place.file][place.row] for place in places])

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


def _load_array(file: Path, name: str) -> NDArray[np.float32]:
    with safe_open(file, framework="numpy") as arrays:
        array: NDArray[np.float32] = arrays.get_tensor(name)
    return array


def _read_ids(file: Path) -> tuple[list[str], list[str]] | None:
    """Ids and hashes of pixels, a pair for each row of features; None: they are computed again."""
    try:
        open_regular(file).close()
        with safe_open(file, framework="numpy") as arrays:
            ids, pixels = (arrays.get_tensor(key) for key in ("ids", "pixels"))
            features, prints = arrays.get_slice("features"), arrays.get_slice("prints")
            n_rows, dtypes = features.get_shape()[0], {features.get_dtype(), prints.get_dtype()}
            prints_fit = prints.get_shape() == [n_rows, N_VALUES]
    except (OSError, SafetensorError, ValueError, TypeError, AttributeError, LookupError):
        return None
    expected = (n_rows, ID_DIGITS // 2)
    fit = all(rows.shape == expected and rows.dtype == np.uint8 for rows in (ids, pixels))
    return (_unpacked(ids), _unpacked(pixels)) if fit and prints_fit and dtypes == {"F32"} else None


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
