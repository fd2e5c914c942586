"""Features of images, kept by their content, so that training again computes those of new ones only.

Features belong to a chain (filters and words), which has a name. Each training adds a file with what it
had to compute; nothing is ever rewritten.
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

from midfea.files import replacing
from midfea.serve.training.results import pack_ids, unpack_ids

ROWS = 256  # read at once


class Place(NamedTuple):
    """Where the features of an image lie."""

    file: Path
    row: int
    pixels: str  # a hash of the decoded image: equal for copies in files that differ


class KeptFeatures:
    """Those of one chain."""

    def __init__(self, folder: Path, chain: str) -> None:
        self.folder = folder / chain
        self.places: dict[str, Place] = {}
        for file in sorted(self.folder.glob("*.safetensors")):
            try:
                with safe_open(file, framework="numpy") as kept:
                    ids, pixels = (unpack_ids(kept.get_tensor(key)) for key in ("ids", "pixels"))
            except (OSError, SafetensorError):
                continue  # they are computed again
            for row, (id, content) in enumerate(zip(ids, pixels, strict=True)):
                self.places[id] = Place(file, row, content)

    def add(self, ids: Sequence[str], pixels: Sequence[str], features: NDArray[np.float32]) -> None:
        """Keep features of images that were not known."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{len(list(self.folder.iterdir())):06}.safetensors"
        arrays: dict[str, NDArray[Any]] = {"ids": pack_ids(ids), "pixels": pack_ids(pixels)}
        with replacing(file) as temporary:
            save_file(arrays | {"features": features}, temporary)
        for row, (id, content) in enumerate(zip(ids, pixels, strict=True)):
            self.places[id] = Place(file, row, content)

    def rows(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Features of known images, (n, n_features)."""
        found: NDArray[np.float32] | None = None
        for file in {self.places[id].file for id in ids}:
            with safe_open(file, framework="numpy") as kept:
                features = kept.get_tensor("features")
            if found is None:
                found = np.empty((len(ids), features.shape[1]), dtype=np.float32)
            for i, id in enumerate(ids):
                if self.places[id].file == file:
                    found[i] = features[self.places[id].row]
        if found is None:
            raise ValueError("no features were asked for")
        return found

    def nearest(self, features: NDArray[Any], ids: Sequence[str], n: int) -> list[tuple[str, float]]:
        """Those of the images whose features are most alike, with their distances, the nearest first.

        Read in parts: all of them may be larger than what a server should hold.
        """
        distances: list[tuple[float, str]] = []
        wanted: dict[Path, dict[int, str]] = {}
        for id in ids:
            if id in self.places:
                wanted.setdefault(self.places[id].file, {})[self.places[id].row] = id
        for file, rows in wanted.items():
            with safe_open(file, framework="numpy") as kept:
                part = kept.get_slice("features")
                n_rows = part.get_shape()[0]
                for start in range(0, n_rows, ROWS):
                    stop = min(start + ROWS, n_rows)
                    found = np.linalg.norm(part[start:stop] - features, axis=1)
                    for row, distance in enumerate(found.tolist(), start):
                        if row in rows:
                            distances.append((distance, rows[row]))
        return [(id, distance) for distance, id in sorted(distances)[:n]]


def forget_other_chains(folder: Path, chain: str) -> None:
    """Remove features that no model needs any more."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name != chain:
            shutil.rmtree(path, ignore_errors=True)
