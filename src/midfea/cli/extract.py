"""`midfea extract`: features of many images, in Parquet files."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import engine_settings, warn
from midfea.cli.manifest import describe, warn_left_out
from midfea.cli.mending import check_model
from midfea.cli.options import Device, Engine, EngineName
from midfea.extras import require

if TYPE_CHECKING:
    from midfea.engines import EngineSettings
    from midfea.scale.extract import Extracted
    from midfea.scale.worker import Executor

What = StrEnum("What", ["features", "scores", "both"])
Dtype = StrEnum("Dtype", ["float32", "float16"])


def extract(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MANIFEST|FOLDER",
            help="A manifest, or anything that midfea manifest takes.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The folder to write, or to go on with.", show_default=False
        ),
    ],
    model: Annotated[
        Path, typer.Option("--model", help="A model written by midfea train.", show_default=False)
    ],
    what: Annotated[What, typer.Option(help="What to compute of each image.")] = What.features,
    dtype: Annotated[Dtype, typer.Option(help="Numbers of the features.")] = Dtype.float32,
    shard_size: Annotated[int, typer.Option(help="Images in each file.", min=1)] = 1000,
    jobs: Annotated[
        int | None, typer.Option(help="Processes, or workers of a cluster. Default: all cores.", min=1)
    ] = None,
    engine: Engine = EngineName.auto,
    device: Device = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try files again that could not be opened before.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Work on a Ray cluster: auto, HOST:PORT, or local for one in this machine.",
        ),
    ] = None,
) -> None:
    """Compute features of many images, and write them to Parquet files.

    Bad images never end the work: they are listed in the folder errors, beside
    the rows. When it was ended otherwise, the same command goes on where it
    stopped.

    Example: midfea extract manifest.parquet -o features --model pets.midfea
    """
    require("scale", "midfea extract")
    from midfea.progress import progress_bars
    from midfea.scale import extract as work

    check_model(model)
    settings = engine_settings(engine, device)
    begun = time.monotonic()
    with progress_bars():
        done = work.extract(
            source,
            output,
            model,
            what=what,
            dtype=dtype,
            shard_size=shard_size,
            executor=_executor(ray, settings, jobs),
            engine=settings,
            retry=retry,
        )
    _print_result(done, output, time.monotonic() - begun)


def _executor(ray: str | None, settings: EngineSettings, jobs: int | None) -> Executor:
    """Processes of this machine, or the cluster at that address."""
    if ray is None:
        from midfea.parallel import n_threads
        from midfea.scale.local import local_executor

        return local_executor(settings, n_threads(jobs))
    require("ray", "midfea extract --ray")
    from midfea.scale.cluster.executor import RayCluster

    return RayCluster(ray, jobs)


def _print_result(done: Extracted, output: Path, seconds: float) -> None:
    if done.listed is not None:
        print(f"Images: {describe(done.listed)}")
        warn_left_out(done.listed)
    counts = done.counts
    kept = f", {done.n_kept:,} of them were there" if done.n_kept else ""
    n_shards = len(done.shards)
    print(
        f"Features: {output} ({counts.rows:,} rows, {counts.errors:,} errors, {n_shards:,} shards"
        f"{kept}, {seconds:.0f} s)"
    )
    if counts.unreadable:
        warn(
            f"{counts.unreadable:,} of the errors are files that could not be opened: --retry tries them"
        )
