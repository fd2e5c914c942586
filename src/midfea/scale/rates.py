"""`Rates`: what one image costs one process. Some are stored; `measure` finds those of a user's own."""

from __future__ import annotations

import json
import math
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from midfea.engines import EngineSettings
from midfea.parallel import linear_algebra_threads, n_threads
from midfea.pictures.images import picture_of
from midfea.pictures.picture import Picture
from midfea.pictures.reading import open_content
from midfea.provenance import Row as StoredRow
from midfea.provenance import about
from midfea.scale.extract import SHARD_SIZE
from midfea.scale.manifest import Manifest, Row, is_manifest, write_manifest
from midfea.scale.reader import ImageReader
from midfea.scale.shards import ROWS, Columns, Results, Shard, ShardFolder
from midfea.scale.worker import IMAGES_AT_ONCE, Job, PictureModel

STORED = Path(__file__).with_name("rates.json")
# A sample is some runs of images that follow each other, as a worker reads them.
N_RUNS, IMAGES_OF_RUN = 10, 20
WARM_UP_IMAGES = 8
MAX_SECONDS = 6.0  # no round over the sample begins later; slow images are fewer
MEANS = (
    "read_seconds",
    "decode_seconds",
    "compute_seconds",
    "write_seconds",
    "core_share",
    "read_features_bytes_per_second",
)


@dataclass(frozen=True)
class Rates:
    """What one image costs one process, the mean of a sample; and where that was measured.

    As many processes as the machine has cores worked at the same time: each is slower than one alone.

    Attributes
    ----------
    name : model and images, in words
    n_images, n_processes : in the sample, and at the same time
    image_bytes : of the file
    manifest_bytes : of its row in the manifest
    read_seconds : reading the bytes for the first time
    decode_seconds, compute_seconds, write_seconds : bytes to picture, to features, to a shard; medians
    core_share : of the time in which they computed processes had a core; the rest went to other programs
    n_features, n_classes : numbers in a row, n_classes with --what both
    process_bytes : peak memory, with shards of 1000 images; 0 if this machine does not tell
    start_seconds : of a new process until its first images are done
    read_features_bytes_per_second : of a shard's features, which were in memory
    about : commit, date, machine, versions, seeds
    """

    name: str
    n_images: int
    n_processes: int
    image_bytes: float
    manifest_bytes: float
    read_seconds: float
    decode_seconds: float
    compute_seconds: float
    write_seconds: float
    core_share: float
    n_features: int
    n_classes: int
    process_bytes: int
    start_seconds: float
    read_features_bytes_per_second: float
    about: StoredRow

    @property
    def image_seconds(self) -> float:
        """Of one process that does everything."""
        return self.read_seconds + self.decode_seconds + self.compute_seconds + self.write_seconds

    @property
    def feeding_seconds(self) -> float:
        """Of a decode process: what is left for cores where GPUs compute."""
        return self.read_seconds + self.decode_seconds

    def to_row(self) -> StoredRow:
        """As it is stored."""
        return asdict(self)


def stored(path: Path = STORED) -> dict[str, Rates]:
    """Rates that were measured before, by name; FileNotFoundError, saying what to do, without any."""
    if not path.exists():
        raise FileNotFoundError("no measured rates are stored here: give --model and --sample")
    known = {field.name for field in fields(Rates)}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {row["name"]: Rates(**{key: row[key] for key in known}) for row in rows}


def measure(model: Path, source: str, name: str) -> Rates:
    """Rates of a model and some images of a source, in new processes on all cores of this machine.

    source : a manifest, or what `midfea.scale.sources.find_entries` takes; see `sample`

    Raises
    ------
    ValueError if none of them can be read.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        manifest = Path(source)
        if not is_manifest(source):
            manifest = folder / "manifest.parquet"
            write_manifest([source], manifest)
        rows = sample(Manifest(manifest))
        job = Job(manifest, model, folder, "features", "float32", EngineSettings("cpu"))
        found = _in_processes(job, rows, n_threads(None))
        manifest_bytes = manifest.stat().st_size / len(Manifest(manifest))
    return Rates(name=name, manifest_bytes=manifest_bytes, about=about(()), **found)


def sample(manifest: Manifest) -> list[Row]:
    """Some runs of rows at equal distances, or all rows if there are few."""
    n = len(manifest)
    if n <= N_RUNS * IMAGES_OF_RUN:
        return manifest.rows(0, n)
    firsts = [(n - IMAGES_OF_RUN) * run // (N_RUNS - 1) for run in range(N_RUNS)]
    return [row for first in firsts for row in manifest.rows(first, IMAGES_OF_RUN)]


def _in_processes(job: Job, rows: Sequence[Row], n: int) -> dict[str, Any]:
    """What so many processes measure at the same time. They are new: their memory is that of workers."""
    jobs = [replace(job, output=job.output / str(number)) for number in range(n)]
    with ProcessPoolExecutor(n, multiprocessing.get_context("spawn")) as pool:
        begun = time.time()
        futures = [pool.submit(_measured, one, rows, begun) for one in jobs]
        found = [future.result() for future in futures]
    means = {name: statistics.fmean(one[name] for one in found) for name in MEANS}
    largest = {name: max(one[name] for one in found) for name in ("process_bytes", "start_seconds")}
    return {**found[0], **means, **largest, "n_processes": n}


# -- in the processes -------------------------------------------------------------------------------


@dataclass
class _Round:
    """What the images of one round took.

    Attributes
    ----------
    rows : those that could be read
    n_bytes : of their files
    read, decode, compute, write : seconds of all of them
    core : seconds of a core in compute
    """

    rows: list[Row] = field(default_factory=list)
    n_bytes: int = 0
    read: float = 0.0
    decode: float = 0.0
    compute: float = 0.0
    write: float = 0.0
    core: float = 0.0

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds within this context to a step."""
        begun = time.perf_counter()
        yield
        setattr(self, step, getattr(self, step) + time.perf_counter() - begun)


class _Process:
    """Does what a worker does, and looks at the clock between the steps."""

    def __init__(self, job: Job) -> None:
        job.output.mkdir()
        model = PictureModel(job)
        self.extractor, self.n_classes, self.view = model.extractor, len(model.classes), model.view
        self.shards = ShardFolder(job.output, Columns(self.extractor.n_features, 0, job.dtype))
        self.shards.prepare()
        self.reader = ImageReader()

    def round(self, rows: Sequence[Row], until: float = math.inf) -> _Round:
        """Rows to a shard; after that time no more of them."""
        results, done = Results(), _Round()
        with linear_algebra_threads(1):
            for first in range(0, len(rows), IMAGES_AT_ONCE):
                some = rows[first : first + IMAGES_AT_ONCE]
                read = [(row, picture) for row in some if (picture := self._picture(row, done))]
                if read:
                    results.rows += [row for row, _ in read]
                    begun = time.process_time()
                    with done.timed("compute"):
                        features = self.extractor.transform([picture for _, picture in read])
                    done.core += time.process_time() - begun
                    results.features.append(features)
                if time.perf_counter() > until:
                    break
        done.rows = results.rows
        self._write(results, done)
        return done

    def _write(self, results: Results, done: _Round) -> None:
        """Write a shard of the usual size, the images several times if they are few."""
        n = len(results.rows)
        copies = math.ceil(SHARD_SIZE / n) if n else 0
        full = Results(results.rows * copies)
        for _ in range(copies):
            full.features += [block.copy() for block in results.features]
        with done.timed("write"):
            self.shards.write(Shard(0, 0, len(full.rows)), full)
        done.write /= max(1, copies)

    def _picture(self, row: Row, done: _Round) -> Picture | None:
        """As the model sees it; None if it cannot be read."""
        try:
            with done.timed("read"):
                content = self.reader.content(row.address)
            with done.timed("decode"), open_content(content) as pixels:
                picture = picture_of(pixels, *self.view)
        except Exception:  # whatever a bad image does, as in a worker
            return None
        done.n_bytes += len(content)
        return picture


def _measured(job: Job, rows: Sequence[Row], begun: float) -> dict[str, Any]:
    """What `Rates` says of a process; begun : the time when it was asked for."""
    process = _Process(job)
    process.round(rows[:WARM_UP_IMAGES])
    start_seconds = time.time() - begun
    until = time.perf_counter() + MAX_SECONDS
    rounds = [process.round(rows, until)]
    first = rounds[0]
    n = len(first.rows)
    if not n:
        raise ValueError(f"none of {len(rows)} images of the sample can be read")
    while time.perf_counter() < until:
        rounds.append(process.round(first.rows))

    def median(step: str) -> float:
        return statistics.median(getattr(one, step) / n for one in rounds)

    return {
        "n_images": n,
        "image_bytes": first.n_bytes / n,
        "read_seconds": first.read / n,
        "decode_seconds": median("decode"),
        "compute_seconds": median("compute"),
        "write_seconds": median("write"),
        "core_share": sum(one.core for one in rounds) / sum(one.compute for one in rounds),
        "n_features": process.extractor.n_features,
        "n_classes": process.n_classes,
        "process_bytes": peak_bytes(),
        "start_seconds": start_seconds,
        "read_features_bytes_per_second": statistics.median(_reading(job.output) for _ in rounds),
    }


def _reading(folder: Path) -> float:
    """Bytes of features that are read in a second, from the shard that was written."""
    begun = time.perf_counter()
    column = pq.read_table(folder / ROWS / "000000.parquet", columns=["feature"])["feature"]
    features = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return float(features.nbytes / (time.perf_counter() - begun))


def peak_bytes() -> int:
    """This process's largest memory so far; 0 where there is no /proc to ask.

    `resource.getrusage` would do elsewhere, but what it says of a new process includes its parent's.
    """
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0
