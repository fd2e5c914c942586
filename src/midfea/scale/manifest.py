"""The manifest: a Parquet file that lists images, one row each: id, address, label, size, sha256."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from midfea.files import replacing
from midfea.pictures.limits import ImageError
from midfea.progress import track
from midfea.scale.files import LeftOut, LocalFiles
from midfea.scale.reader import ImageReader
from midfea.scale.sources import find_entries

ROWS_AT_ONCE = 10_000  # written together, and in memory at one time
MAX_NAMED = 5  # of what was left out
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        ("label", pa.string()),
        ("size", pa.int64()),
        ("sha256", pa.string()),
    ]
)
NEEDED = ("id", "address")  # columns; a manifest made by another program may lack the others


class ManifestError(ValueError):
    """A file that is no manifest, or a damaged one."""


class Row(NamedTuple):
    """An image of a manifest; `id` counts from 0."""

    id: int
    address: str
    label: str | None


@dataclass
class Listed:
    """What a manifest lists: counts of images, of each class, and of what was left out.

    Attributes
    ----------
    labels : images of each class
    n_left_out, named : how many places were left out, and the first of them
    """

    n_images: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    n_left_out: int = 0
    named: list[LeftOut] = field(default_factory=list)

    def leave_out(self, place: LeftOut) -> None:
        """Count a place, and keep the first ones."""
        self.n_left_out += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(place)


def write_manifest(
    sources: Sequence[str], path: str | os.PathLike[str], with_hash: bool = False
) -> Listed:
    """List the images of all sources in a Parquet file; it appears whole or not at all.

    Parameters
    ----------
    sources : see `midfea.scale.sources.find_entries`
    path : the file to write
    with_hash : also read every image, and note the SHA-256 of its bytes; what cannot be read is left out

    Returns
    -------
    listed : `Listed`; ValueError if there are no images at all
    """
    listed = Listed()
    with replacing(path) as temporary, closing(ImageReader()) as reader:
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            entries = _entries(sources, listed, reader if with_hash else None)
            for rows in iter(lambda: list(islice(entries, ROWS_AT_ONCE)), []):
                writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
        if not listed.n_images:
            first = "".join(f": {place}: {reason}" for place, reason in listed.named[:1])
            raise ValueError(f"no images in {', '.join(sources)}{first}")
    return listed


def _entries(
    sources: Sequence[str], listed: Listed, reader: ImageReader | None
) -> Iterator[dict[str, Any]]:
    """The rows of the manifest; counted, hashed if there is a reader."""
    places = map(find_entries, track(sources, "listing images", len(sources)))
    for place in chain.from_iterable(places):
        if isinstance(place, LeftOut):
            listed.leave_out(place)
            continue
        row = {"id": listed.n_images, **place._asdict()}
        if reader is not None:
            try:
                content = reader.content(place.address)
            except (OSError, ImageError) as error:
                listed.leave_out(LeftOut(place.address, str(getattr(error, "strerror", None) or error)))
                continue
            row |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        listed.n_images += 1
        if place.label is not None:
            listed.labels[place.label] += 1
        yield row


class Manifest:
    """A manifest to read, some rows at a time; ManifestError if it is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            with LocalFiles().open(self.path) as file:
                self._about = about = pq.read_metadata(file)
        except pa.ArrowException as error:
            raise ManifestError(f"{path}: not a readable Parquet file ({error})") from None
        names = about.schema.to_arrow_schema().names
        lacking = [name for name in NEEDED if name not in names]
        if lacking:
            raise ManifestError(
                f"{path}: no manifest, it has no column {lacking[0]!r}: make one with midfea manifest"
            )
        sizes = (about.row_group(group).num_rows for group in range(about.num_row_groups))
        self._begins = list(accumulate(sizes, initial=0))  # of each group of rows, and the end
        self._columns = [*NEEDED, *({"label"} & set(names))]

    def __len__(self) -> int:
        return self._begins[-1]

    def rows(self, first: int, count: int) -> list[Row]:
        """`count` rows from number `first` on."""
        begins, end = self._begins, first + count
        groups = [g for g in range(len(begins) - 1) if begins[g] < end and begins[g + 1] > first]
        try:
            with LocalFiles().open(self.path) as file:
                manifest = pq.ParquetFile(file, metadata=self._about)
                table = manifest.read_row_groups(groups, self._columns)
        except (pa.ArrowException, OSError) as error:
            raise ManifestError(f"{self.path}: damaged ({error}): make it again") from None
        rows = table.slice(first - begins[groups[0]], count).to_pylist()
        for number, row in enumerate(rows, start=first):
            if row["id"] != number or not isinstance(row["address"], str):
                raise ManifestError(
                    f"{self.path}: row {number} has id {row['id']} and address {row['address']!r:.100}: "
                    "ids count from 0, and each row needs an address"
                )
        labels = (row.get("label") for row in rows)
        return [
            Row(row["id"], row["address"], None if label is None else str(label))
            for row, label in zip(rows, labels, strict=True)
        ]


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file that is a manifest."""
    if not os.path.isfile(path):
        return False
    try:
        Manifest(path)
    except (OSError, ValueError):
        return False
    return True


def file_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file of this machine."""
    with LocalFiles().open(os.fspath(path)) as file:
        return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
