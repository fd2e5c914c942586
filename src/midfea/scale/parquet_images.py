"""Images inside Parquet files: a column `image`, of bytes or as Hugging Face writes it; and `label`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from midfea.pictures.limits import ImageError, ImageLimits
from midfea.scale.archives import Member

IMAGE, LABEL = "image", "label"  # columns
ROWS_AT_ONCE = 16  # whose images are in memory
LABELS_AT_ONCE = 10_000


class ParquetImages:
    """An `Archive` whose members are the numbers of its rows, in decimal."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = file
        try:
            self._file = pq.ParquetFile(file)
        except pa.ArrowException as error:
            raise OSError(f"is not a readable Parquet file ({error})") from None
        schema = self._file.schema_arrow
        if IMAGE not in schema.names or not _holds_bytes(schema.field(IMAGE).type):
            raise OSError(f"has no column {IMAGE!r} with the bytes of images")
        self._names = _class_names(schema)
        self._has_labels = LABEL in schema.names
        self._batches: Iterator[Any] = iter(())
        self._batch: list[Any] = []
        self._begin = 0  # the row at which the batch begins
        self._group_end = 0

    def members(self) -> Iterator[Member]:
        """See `Archive`."""
        n_rows = self._file.metadata.num_rows
        if not self._has_labels:
            yield from (Member(str(row)) for row in range(n_rows))
            return
        row = 0
        for batch in self._file.iter_batches(LABELS_AT_ONCE, columns=[LABEL]):
            for label in batch.column(0).to_pylist():
                yield Member(str(row), self._name(label))
                row += 1

    def content(self, member: str, limits: ImageLimits) -> bytes:
        """See `Archive`. Rows that are asked for in their order are read once."""
        if not member.isdecimal() or int(member) >= self._file.metadata.num_rows:
            raise FileNotFoundError("no such row in the file")
        row = int(member)
        try:
            self._go_to(row)
        except pa.ArrowException as error:
            self._batch, self._group_end = [], 0
            raise ImageError(f"cannot be unpacked ({error})") from None
        value = self._batch[row - self._begin]
        if isinstance(value, dict):
            value = value.get("bytes")
        if not isinstance(value, bytes):
            raise ImageError("holds no image")
        limits.check_bytes(len(value))
        return value

    def close(self) -> None:
        """See `Archive`."""
        self._file.close()
        self._stream.close()

    def _go_to(self, row: int) -> None:
        """Read on until the batch holds a row; from the start of its group if that is behind."""
        if not self._begin <= row < self._group_end:
            self._open_group(row)
        while row >= self._begin + len(self._batch):
            self._begin += len(self._batch)
            batch = next(self._batches, None)
            if batch is None:
                raise pa.ArrowInvalid("a group of rows ends early")
            self._batch = batch.column(0).to_pylist()

    def _open_group(self, row: int) -> None:
        begin, group = 0, 0
        while begin + (size := self._file.metadata.row_group(group).num_rows) <= row:
            begin, group = begin + size, group + 1
        self._batches = self._file.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=[IMAGE])
        self._batch, self._begin, self._group_end = [], begin, begin + size

    def _name(self, label: Any) -> str | None:
        if label is None:
            return None
        known = isinstance(label, int) and 0 <= label < len(self._names)
        return self._names[label] if known else str(label)


def _holds_bytes(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        index = kind.get_field_index("bytes")
        return index >= 0 and _holds_bytes(kind.field(index).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _class_names(schema: Any) -> list[str]:
    """The names of the classes that labels count, as Hugging Face writes them; none if not known."""
    try:
        about = json.loads((schema.metadata or {})[b"huggingface"])
        return [str(name) for name in about["info"]["features"][LABEL]["names"]]
    except (KeyError, TypeError, ValueError):
        return []
