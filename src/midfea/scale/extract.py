"""`extract`: features of the images of a manifest, shard by shard; what is finished is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from midfea.engines import EngineSettings
from midfea.files import replacing
from midfea.progress import track
from midfea.provenance import about
from midfea.scale.local import Processes
from midfea.scale.manifest import Listed, Manifest, file_sha256, is_manifest, write_manifest
from midfea.scale.shards import Columns, Counts, Shard, ShardFolder, cut
from midfea.scale.worker import DTYPES, WHAT, Executor, Job, PictureModel

ABOUT, MANIFEST, LOCK = "_about.json", "_manifest.parquet", ".lock"
FORMAT, VERSION = "midfea features", 2  # 1 had no belonging
SHARD_SIZE = 1000  # images
ONE_PROCESS, AUTO = Processes(), EngineSettings()


class OtherRun(ValueError):
    """A folder holds what belongs to another run, or to none."""

    def __init__(self, folder: Path, difference: str) -> None:
        super().__init__(f"{folder}: {difference}: name a new folder")
        self.difference = difference


@dataclass(frozen=True)
class Extracted:
    """What `extract` has done.

    Attributes
    ----------
    counts : of the whole manifest
    folder, shards : where the shards are, and all of them
    n_kept : shards that were finished before
    listed : what was listed if no manifest was given, else None
    """

    counts: Counts
    folder: ShardFolder
    shards: Sequence[Shard]
    n_kept: int
    listed: Listed | None


def extract(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    what: str = "features",
    dtype: str = "float32",
    shard_size: int = SHARD_SIZE,
    executor: Executor = ONE_PROCESS,
    engine: EngineSettings = AUTO,
    retry: bool = False,
) -> Extracted:
    """Compute features or scores of many images, and write them as Parquet shards.

    A run that was ended in any way goes on where it stopped: finished shards are checked and kept.

    Parameters
    ----------
    source : a manifest, or what `midfea.scale.sources.find_entries` takes
    output : a folder; see `midfea.scale.shards` for what is written there
    model : a model file
    what : {"features", "scores", "both"}, default="features"
    dtype : {"float32", "float16"}, default="float32"
        Of features.
    shard_size : int, default=1000
        Images of a shard.
    executor : who computes the shards, such as `midfea.scale.local.Processes(2)`
    engine : computes the features; the same to rounding, so it may change between runs
    retry : bool, default=False
        Also do those shards again in which files could not be opened.

    Raises
    ------
    ValueError if the folder holds something else, or results of another manifest, model or setting.
    """
    for name, value, known in (("what", what, WHAT), ("dtype", dtype, DTYPES)):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, got {value!r}")
    if shard_size < 1:
        raise ValueError(f"shard_size is 1 or more, got {shard_size}")
    folder = Path(output)
    with only_writer(folder):
        manifest, listed = _manifest(os.fspath(source), folder)
        job = Job(Path(manifest.path), Path(model), folder, what, dtype, engine)
        return extract_shards(job, manifest, listed, shard_size, executor, retry)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Within this context nobody else writes to a folder of shards, which is made if need be."""
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, blocking=False):
            yield
    except Timeout:
        raise ValueError(
            f"{folder}: another midfea extract is writing there: wait for its end"
        ) from None


def extract_shards(
    job: Job,
    manifest: Manifest,
    listed: Listed | None,
    shard_size: int,
    executor: Executor,
    retry: bool,
    step: str = "extracting",
) -> Extracted:
    """`extract` of a manifest, for the only writer to the folder; `step` is told of the progress."""
    fitted = PictureModel(job)
    columns, classes = fitted.columns(job.dtype), fitted.classes
    del fitted  # the workers have their own
    description = _describe(job, manifest, columns, classes, shard_size)
    _begin(job.output, description)
    shards = ShardFolder(job.output, columns)
    shards.prepare()
    wanted = cut(len(manifest), shard_size)
    missing = _missing(shards, wanted, retry)
    done = executor.run(job, missing)
    try:
        for _ in track(done, step, sum(shard.n_images for shard in missing)):
            pass
    finally:
        done.close()  # first the workers end
        shards.clean()
    counts = _counted(shards, wanted)
    _write_about(job.output, description | {"counts": asdict(counts)})
    return Extracted(counts, shards, wanted, len(wanted) - len(missing), listed)


def _missing(shards: ShardFolder, wanted: Sequence[Shard], retry: bool) -> list[Shard]:
    """The shards that are still to be computed."""
    missing = []
    for shard in track(wanted, "checking shards", len(wanted)):
        counts = shards.counts(shard)
        if counts is None or (retry and counts.unreadable):
            missing.append(shard)
    return missing


def _counted(shards: ShardFolder, wanted: Sequence[Shard]) -> Counts:
    total = Counts()
    for shard in wanted:
        counts = shards.counts(shard, check_content=False)
        if counts is None:
            raise OSError(
                f"{shards.folder}: shard {shard.name} is not there. Type the same command again; on a "
                "cluster this folder must lie on storage that all nodes share"
            )
        total += counts
    return total


# -- what belongs together --------------------------------------------------------------------------


def _check_folder(folder: Path) -> None:
    """ValueError if something else lies where features shall be written."""
    if folder.is_dir() and not (folder / ABOUT).exists():
        others = [name for name in os.listdir(folder) if not name.startswith((LOCK, MANIFEST))]
        if others:
            raise OtherRun(folder, f"holds other files ({sorted(others)[0]}, ...)")


def _manifest(source: str, folder: Path) -> tuple[Manifest, Listed | None]:
    """The manifest that a source is, or a new one of what lies there."""
    if is_manifest(source):
        return Manifest(source), None
    place, new = folder / MANIFEST, folder / f"{MANIFEST}.new"
    try:
        listed = write_manifest([source], new)
        if not place.exists():
            new.replace(place)
        elif file_sha256(new) != file_sha256(place):
            raise ValueError(
                f"{source}: its images have changed since {folder} was begun. Name a new folder, or "
                f"give {place} to go on with the images of then"
            )
    finally:
        new.unlink(missing_ok=True)
    return Manifest(place), listed


def _describe(
    job: Job, manifest: Manifest, columns: Columns, classes: list[str], shard_size: int
) -> dict[str, Any]:
    """What `_about.json` says of a run; the settings must stay the same."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "settings": {
            "model_sha256": file_sha256(job.model),
            "manifest_sha256": file_sha256(manifest.path),
            "what": job.what,
            "dtype": job.dtype,
            "shard_size": shard_size,
        },
        "images": len(manifest),
        "n_features": columns.n_features,
        "classes": classes if columns.n_scores else [],
        "model": str(job.model),
        "manifest": manifest.path,
        "about": about(()),
    }


def _begin(folder: Path, description: dict[str, Any]) -> None:
    """Write what is computed here; ValueError if it is something else than what was begun."""
    path = folder / ABOUT
    if not path.exists():
        _write_about(folder, description)
        return
    try:
        before = json.loads(path.read_bytes())
        settings = dict(before["settings"])
        if before["format"] != FORMAT:
            raise ValueError("of another format")
        version = before["version"]
    except (ValueError, KeyError, TypeError):
        raise OtherRun(path, "not written by midfea extract, or damaged") from None
    if version != VERSION:
        raise OtherRun(folder, f"was begun by another midfea (format {version}, now {VERSION})")
    for name, now in description["settings"].items():
        then = settings.get(name)
        if then != now:
            thing = name.removesuffix("_sha256")
            if thing != name:
                difference = f"another {thing} (it was {before.get(thing)}, now {description[thing]})"
            else:
                difference = f"{name} {then!r}, now {now!r}"
            raise OtherRun(folder, f"was begun with {difference}")


def _write_about(folder: Path, description: dict[str, Any]) -> None:
    with replacing(folder / ABOUT) as temporary:
        temporary.write_text(json.dumps(description, indent=1) + "\n")
