"""`predict`: the classes of the images of a manifest, in one file; some of them in memory at a time.

Scores are computed as by `extract`, into shards in a folder beside the file. When all are there, the
answers are made of them shard by shard, and the folder is removed.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from midfea.engines import EngineSettings
from midfea.files import replacing
from midfea.learning.answer_table import AnswerTable, Floats, Texts, cells
from midfea.learning.decisions import DecisionRule
from midfea.learning.parts import ClassifierParts
from midfea.progress import track
from midfea.scale.extract import SHARD_SIZE, Extracted, OtherRun, extract_shards, only_writer
from midfea.scale.files import LeftOut
from midfea.scale.manifest import Manifest
from midfea.scale.shards import ERRORS, ROWS, Counts, Shard
from midfea.scale.worker import Executor, Job

MAX_NAMED = 5  # of what was left out

Columns = Mapping[str, Texts | Floats]
Write = Callable[[Columns], None]


@dataclass(frozen=True)
class Answering:
    """What is answered, and how.

    Attributes
    ----------
    model : a model file with a classifier
    parts : what it holds
    rule : makes answers of probabilities
    top : how many of the most probable classes are named
    """

    model: Path
    parts: ClassifierParts
    rule: DecisionRule
    top: int = 1


@dataclass
class Answered:
    """What was answered: counts, and the first images that have no answer."""

    counts: Counts
    left_out: list[LeftOut] = field(default_factory=list)


def predict(
    manifest: Path,
    output: Path,
    answering: Answering,
    *,
    executor: Executor,
    engine: EngineSettings,
    skipped: Path | None = None,
    shard_size: int = SHARD_SIZE,
) -> Answered:
    """Answer the images of a manifest; a run that was ended goes on where it stopped.

    Parameters
    ----------
    output : a file, .csv or .parquet; it appears whole or not at all
    executor, engine, shard_size : see `midfea.scale.extract.extract`
    skipped : a CSV file for the images without an answer, and why

    Raises
    ------
    ValueError if the folder beside the output holds the work of another run.
    """
    folder = output.with_name(f"{output.name}.parts")
    try:
        with only_writer(folder):
            listed = Manifest(manifest)
            job = Job(manifest, answering.model, folder, "scores", "float32", engine)
            done = extract_shards(job, listed, None, shard_size, executor, True, "predicting")
            answered = _write(done, listed, output, answering, skipped)
            shutil.rmtree(folder, ignore_errors=True)
    except OtherRun as error:
        raise ValueError(
            f"{folder}: {error.difference}: remove it to begin anew, or name another output"
        ) from None
    shutil.rmtree(folder, ignore_errors=True)  # the lock, where it could not go before
    return answered


def _write(
    done: Extracted, manifest: Manifest, output: Path, answering: Answering, skipped: Path | None
) -> Answered:
    answered = Answered(done.counts)
    with _table(output) as write, _list(skipped) as write_skipped:
        for shard in track(done.shards, "writing answers", len(done.shards)):
            write(_answers(done, manifest, shard, answering))
            errors = done.folder.table(ERRORS, shard)
            reasons = errors["reason"].to_pylist()
            left_out = list(map(LeftOut, errors["address"].to_pylist(), reasons))
            write_skipped(left_out)
            answered.left_out += left_out[: MAX_NAMED - len(answered.left_out)]
    return answered


def _answers(done: Extracted, manifest: Manifest, shard: Shard, answering: Answering) -> Columns:
    """The answers of a shard, in columns."""
    rows = done.folder.table(ROWS, shard)
    listed = manifest.rows(shard.first, shard.n_images)
    files = [listed[number - shard.first].address for number in rows["id"].to_pylist()]
    parts = answering.parts
    scores = rows["scores"].combine_chunks().flatten().to_numpy().reshape(-1, len(parts.classes))
    belonging = rows["belonging"].to_numpy()  # NaN for null
    names = [str(label) for label in parts.classes]
    table = AnswerTable.of(parts.probabilities(scores), belonging, names, answering.rule)
    return table.columns(files, answering.top)


# -- files ------------------------------------------------------------------------------------------


def _table(path: Path) -> Any:
    """A context within which columns are written to a file, by its ending."""
    return _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    writer: pq.ParquetWriter | None = None

    def write(columns: Columns) -> None:
        nonlocal writer
        table = pa.table({name: _array(column) for name, column in columns.items()})
        writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd")
        writer.write_table(table)

    with replacing(path) as temporary:
        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


def _array(column: Texts | Floats) -> Any:
    kind = pa.string() if column.dtype == np.dtype(object) else pa.float64()
    return pa.array(column, kind, from_pandas=True)  # NaN is null


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    has_head = False

    def write(columns: Columns) -> None:
        nonlocal has_head
        if not has_head:
            writer.writerow(columns)
            has_head = True
        writer.writerows(zip(*map(cells, columns.values()), strict=True))

    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        yield write


@contextmanager
def _list(path: Path | None) -> Iterator[Callable[[list[LeftOut]], None]]:
    """A CSV file of what was left out; nothing without a path."""
    if path is None:
        yield lambda left_out: None
        return
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "reason"))
        yield writer.writerows
