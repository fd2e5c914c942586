"""`FeatureRows`: the labelled rows of a folder of features, as `Samples` to learn from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from midfea.learning.folds import Indices
from midfea.learning.samples import Features, Samples, read, rows_of_block
from midfea.progress import track
from midfea.scale.extract import ABOUT, FORMAT, VERSION
from midfea.scale.files import LocalFiles
from midfea.scale.shards import ROWS, Columns, Shard, ShardFolder, cut


class FeatureRows:
    """`Samples` of a folder of features: the rows that have a label.

    Attributes
    ----------
    model_sha256, model : of the model that has computed the features, and where it was then
    labels, numbers : the names of the classes, sorted, and the number of each row's class
    n_without_label, n_errors : images that are left out
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """ValueError if the folder holds no features, or not yet all of them."""
        self._folder = Path(folder)
        about = _read_about(self._folder)
        settings = about["settings"]
        self.n_features, self.model = int(about["n_features"]), str(about["model"])
        self.model_sha256 = str(settings["model_sha256"])
        if not self.n_features:
            raise ValueError(
                f"{folder}: holds scores only: type midfea extract with --what features, or both"
            )
        columns = Columns(self.n_features, len(about["classes"]), str(settings["dtype"]))
        self._shards = self._finished(
            ShardFolder(self._folder, columns), cut(int(about["images"]), int(settings["shard_size"]))
        )
        self._read_labels()
        self.n_errors = int(about["images"]) - len(self.numbers) - self.n_without_label

    @property
    def n_blocks(self) -> int:
        """See `Samples`."""
        size = rows_of_block(self.n_features)
        return sum(-(-len(labelled) // size) for labelled in self._labelled)

    def __len__(self) -> int:
        return len(self.numbers)

    def blocks(self) -> Iterator[Features]:
        """See `Samples`; OSError if a file is not as it was written."""
        size = rows_of_block(self.n_features)
        for path, labelled in zip(self._paths, self._labelled, strict=True):
            first = 0
            for batch in _batches(path, "feature", size):
                if getattr(batch.type, "list_size", 0) != self.n_features:
                    raise OSError(f"{path}: its rows do not have {self.n_features} features")
                values = np.asarray(batch.flatten()).reshape(-1, self.n_features)
                own = labelled[first : first + len(values)]
                first += len(values)
                yield np.asarray(values if own.all() else values[own], dtype=np.float32)
            if first != len(labelled):
                raise OSError(f"{path}: has changed while it was read")

    @property
    def _paths(self) -> list[Path]:
        return [self._folder / ROWS / f"{shard.name}.parquet" for shard in self._shards]

    def _finished(self, folder: ShardFolder, shards: list[Shard]) -> list[Shard]:
        """The shards; ValueError if one is not there as it was written."""
        missing = [
            shard
            for shard in track(shards, "checking shards", len(shards))
            if folder.counts(shard) is None
        ]
        if missing:
            raise ValueError(
                f"{self._folder}: {len(missing):,} of {len(shards):,} shards are missing or damaged, "
                f"the first is {missing[0].name}: type the same midfea extract again, which makes them"
            )
        return shards

    def _read_labels(self) -> None:
        known: dict[str | None, int] = {}
        codes, self._labelled = [], []
        for path in self._paths:
            names = [name for batch in _batches(path, "label", 2**16) for name in batch.to_pylist()]
            own = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)
            labelled = own != known.get(None, -1)
            codes.append(own[labelled])
            self._labelled.append(labelled)
        self.labels = sorted(name for name in known if name is not None)
        place = {name: number for number, name in enumerate(self.labels)}
        numbers = np.array([place.get(str(name), -1) for name in known], dtype=np.intp)
        self.numbers: Indices = numbers[np.concatenate(codes)]
        self.n_without_label = sum(len(a) for a in self._labelled) - len(self.numbers)

    @cached_property
    def groups(self) -> Indices | None:
        """Equal rows are a group: those of equal images. None if all differ."""
        hashes = np.empty(len(self), dtype=np.uint64)
        for rows, features in read(self, "looking for equal images"):
            if not np.isfinite(features).all():
                raise ValueError(f"{self._folder}: its features are not all finite")
            hashes[rows] = _hashes(features)
        found, groups = np.unique(hashes, return_inverse=True)
        return None if len(found) == len(hashes) else groups


def in_memory(samples: Samples) -> Features:
    """All of them."""
    features = np.empty((len(samples), samples.n_features), dtype=np.float32)
    for rows, block in read(samples, "reading features"):
        features[rows] = block
    return features


def _hashes(features: Features) -> NDArray[np.uint64]:
    """Of the bits of each row, (n,)."""
    factors = np.random.default_rng(0).integers(
        1, 2**63, features.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    bits = np.ascontiguousarray(features).view(np.uint32)
    mixed = (bits ^ (bits >> np.uint32(15))).astype(np.uint64)
    return np.asarray((mixed * factors).sum(axis=1, dtype=np.uint64))


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    if not path.is_file():
        raise ValueError(
            f"{folder}: holds no features: here belongs a folder that midfea extract has written"
        )
    try:
        about: dict[str, Any] = json.loads(path.read_bytes())
        if (about["format"], about["version"]) != (FORMAT, VERSION):
            raise ValueError("of another format")
        for name in ("images", "n_features", "classes", "model"):
            about[name]
        for name in ("model_sha256", "dtype", "shard_size"):
            about["settings"][name]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: not written by this midfea extract, or damaged") from None
    return about


def _batches(path: Path, column: str, n_rows: int) -> Iterator[Any]:
    """A column of a Parquet file, some rows at a time; OSError if it cannot be read."""
    try:
        with LocalFiles().open(str(path)) as opened:
            file = pq.ParquetFile(opened)
            for batch in file.iter_batches(n_rows, columns=[column], use_threads=False):
                yield batch.column(0)
    except pa.ArrowException as error:
        raise OSError(f"{path}: damaged ({error})") from None
