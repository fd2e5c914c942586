"""Shards: Parquet files with the rows and the errors of some images of a manifest, each written whole.

features/_about.json        what was computed, from what
features/rows/000000.parquet      id, label, feature, scores, belonging
features/errors/000000.parquet    id, address, reason
features/done/000000.json         counts, and the checksums of both: written last
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from midfea.files import ENDING, replacing
from midfea.scale.files import LocalFiles
from midfea.scale.manifest import Row, file_sha256

ROWS, ERRORS, DONE = "rows", "errors", "done"  # folders
BYTES_AT_ONCE = 2**23  # of a table, that are written together
ERROR_SCHEMA = pa.schema([("id", pa.int64()), ("address", pa.string()), ("reason", pa.string())])


class Shard(NamedTuple):
    """Some rows of a manifest that follow each other."""

    number: int
    first: int  # the id of its first row
    n_images: int

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.number:06d}"


def cut(n_rows: int, shard_size: int) -> list[Shard]:
    """The shards of a manifest; the last one may be smaller."""
    firsts = range(0, n_rows, shard_size)
    return [Shard(i, first, min(shard_size, n_rows - first)) for i, first in enumerate(firsts)]


@dataclass
class Counts:
    """Of images: those with a row, those with an error, and those errors that no image was read for."""

    rows: int = 0
    errors: int = 0
    unreadable: int = 0

    def __add__(self, other: Counts) -> Counts:
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return Counts(*(mine + theirs for mine, theirs in pairs))


@dataclass
class Results:
    """What came out of the images of a shard.

    Attributes
    ----------
    rows : those with results, as the manifest lists them
    features, scores, belonging : blocks of these, in the same order; empty if not wanted
    errors : the other rows, each with the reason
    n_unreadable : errors for which no image was read
    """

    rows: list[Row] = field(default_factory=list)
    features: list[NDArray[Any]] = field(default_factory=list)
    scores: list[NDArray[Any]] = field(default_factory=list)
    belonging: list[NDArray[Any]] = field(default_factory=list)
    errors: list[tuple[Row, str]] = field(default_factory=list)
    n_unreadable: int = 0

    def fail(self, row: Row, reason: str, unreadable: bool) -> None:
        """Add an error."""
        self.errors.append((row, reason))
        self.n_unreadable += unreadable


@dataclass(frozen=True)
class Columns:
    """The columns that rows have beside id and label: the number of values of each, 0 for none.

    n_scores : where there are scores, belonging stands beside them; null if it is not known
    dtype : "float32" or "float16", of features; scores are float32
    """

    n_features: int
    n_scores: int
    dtype: str = "float32"

    def table(self, results: Results) -> Any:
        """The rows as a table."""
        columns = {
            "id": pa.array([row.id for row in results.rows], pa.int64()),
            "label": pa.array([row.label for row in results.rows], pa.string()),
        }
        if self.n_features:
            columns["feature"] = _lists(results.features, self.n_features, self.dtype)
        if self.n_scores:
            columns["scores"] = _lists(results.scores, self.n_scores, "float32")
            belonging = np.concatenate([np.empty(0), *results.belonging])
            columns["belonging"] = pa.array(belonging, pa.float64(), from_pandas=True)  # NaN is null
        return pa.table(columns)


class ShardFolder:
    """The shards in a folder."""

    def __init__(self, folder: Path, columns: Columns) -> None:
        self.folder, self._columns = folder, columns

    def prepare(self) -> None:
        """Make the folders, without what an earlier run has left unfinished."""
        for name in (ROWS, ERRORS, DONE):
            (self.folder / name).mkdir(exist_ok=True)
        self.clean()

    def clean(self) -> None:
        """Remove what processes that were ended have left unfinished."""
        for name in (ROWS, ERRORS, DONE):
            for unfinished in (self.folder / name).glob(f".*{ENDING}"):
                unfinished.unlink(missing_ok=True)

    def write(self, shard: Shard, results: Results) -> None:
        """Write a shard; OSError, saying what to do, if it cannot be written.

        Two may write the same shard at once, say after a network was cut. Each file is of one of them,
        and whoever writes the marker last looks whether it fits the files. So rows and errors of two are
        never taken for one.
        """
        done = self._place(DONE, shard)
        errors = [
            {"id": row.id, "address": row.address, "reason": reason} for row, reason in results.errors
        ]
        tables = {
            ROWS: self._columns.table(results),
            ERRORS: pa.Table.from_pylist(errors, ERROR_SCHEMA),
        }
        counts = Counts(len(results.rows), len(results.errors), results.n_unreadable)
        try:
            done.unlink(missing_ok=True)
            sums = {name: self._write_table(name, shard, table) for name, table in tables.items()}
            marker = {"first": shard.first, "n_images": shard.n_images, **asdict(counts), "sha256": sums}
            with replacing(done) as temporary:
                temporary.write_text(json.dumps(marker))
            if self.counts(shard) is None:
                raise OSError("it is not there as it was written, does another run write it?")
        except OSError as error:
            raise OSError(
                f"{self.folder}: shard {shard.name} cannot be written ({error}). Finished shards are "
                "kept: make room, or mend what is wrong, and type the same command again"
            ) from None

    def counts(self, shard: Shard, check_content: bool = True) -> Counts | None:
        """Of a finished shard; None if it is not there as it was written."""
        try:
            marker = json.loads(self._place(DONE, shard).read_bytes())
            counts = Counts(marker["rows"], marker["errors"], marker["unreadable"])
            if (marker["first"], marker["n_images"]) != (shard.first, shard.n_images):
                return None
            if counts.rows + counts.errors != shard.n_images:
                return None
            for name in (ROWS, ERRORS) if check_content else ():
                if file_sha256(self._place(name, shard)) != marker["sha256"][name]:
                    return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return counts

    def table(self, kind: str, shard: Shard) -> Any:
        """The rows or the errors of a finished shard; OSError if they cannot be read."""
        path = self._place(kind, shard)
        try:
            with LocalFiles().open(str(path)) as file:
                return pq.read_table(file)
        except pa.ArrowException as error:
            raise OSError(f"{path}: cannot be read ({error}): type the same command again") from None

    def _place(self, kind: str, shard: Shard) -> Path:
        ending = "json" if kind == DONE else "parquet"
        return self.folder / kind / f"{shard.name}.{ending}"

    def _write_table(self, kind: str, shard: Shard, table: Any) -> str:
        """Write a table, and return its checksum."""
        path = self._place(kind, shard)
        n_rows = max(1, min(table.num_rows, BYTES_AT_ONCE * table.num_rows // max(1, table.nbytes)))
        with replacing(path) as temporary:
            # Features are numbers that compression hardly makes smaller.
            pq.write_table(
                table,
                temporary,
                row_group_size=n_rows,
                compression="none",
                use_dictionary=["label"],
            )
            return file_sha256(temporary)


def _lists(blocks: list[NDArray[Any]], n: int, dtype: str) -> Any:
    """Rows of n numbers as a column of lists of fixed size."""
    lists = []
    for values in blocks:
        if values.shape[1:] != (n,):
            raise ValueError(f"rows of {values.shape[1:]} where {n} values are due")
        flat = pa.array(np.ascontiguousarray(values, dtype=dtype).ravel())
        lists.append(pa.FixedSizeListArray.from_arrays(flat, n))
    return pa.chunked_array(lists, pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), n))
