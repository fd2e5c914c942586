"""`midfea plan`: what computing the features of many images takes, before it is done."""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midfea.cli.common import print_table, warn
from midfea.cli.mending import check_model
from midfea.extras import require

if TYPE_CHECKING:
    from midfea.scale.plan import Machines, Plan
    from midfea.scale.rates import Rates

Dtype = StrEnum("Dtype", ["float32", "float16"])
DEFAULT_RATES = "fast-150"
MEGABYTE = 1e6
MAX_COUNT = 10**15
MIN_CORE_SHARE = 0.9  # below it the user is warned
BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def _whole(text: str) -> int:
    """A whole number, also as 1e8."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise typer.BadParameter(f"{text} is no number such as 1000000 or 1e6")
    if abs(number) > MAX_COUNT:
        raise typer.BadParameter(f"{text} is more than {MAX_COUNT:.0e}")
    if number != int(number):
        raise typer.BadParameter(f"{text} is no whole number")
    return int(number)


Whole = {"parser": _whole, "metavar": "N"}


def plan(
    images: Annotated[int, typer.Option(help="Images, such as 1e8.", show_default=False, **Whole)],
    cores: Annotated[
        int | None, typer.Option(help="Cores in all. Default: those of this machine.", **Whole)
    ] = None,
    gpus: Annotated[int, typer.Option(help="GPUs in all; then the cores decode.", **Whole)] = 0,
    cores_per_node: Annotated[int, typer.Option(help="Cores of each machine.", **Whole)] = 32,
    model: Annotated[
        Path | None, typer.Option("--model", help="Measure with this model, here and now.")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="PHOTOS|MANIFEST", help="Some 200 of these images are measured."),
    ] = None,
    rates: Annotated[
        str, typer.Option(metavar="NAME", help="Stored rates to plan from, without a model.")
    ] = DEFAULT_RATES,
    gpu_rate: Annotated[
        float | None, typer.Option(metavar="IMAGES/S", help="What one GPU computes, without writing.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="MB/S", help="What the storage reads and writes in all.")
    ] = None,
    node_bandwidth: Annotated[
        float | None, typer.Option(metavar="MB/S", help="What the network of one node carries.")
    ] = None,
    dtype: Annotated[Dtype, typer.Option(help="Numbers of the features.")] = Dtype.float32,
    shard_size: Annotated[int, typer.Option(help="Images in each file.", **Whole)] = 1000,
    read_rate: Annotated[
        float | None, typer.Option(metavar="MB/S", help="At which training reads features.")
    ] = None,
    core_price: Annotated[
        float | None, typer.Option(metavar="PRICE", help="Of a core for an hour.", min=0)
    ] = None,
    gpu_price: Annotated[
        float | None, typer.Option(metavar="PRICE", help="Of a GPU for an hour.", min=0)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Say what midfea extract of many images takes: hours, storage, network, machines.

    The plan is arithmetic from measured rates. Without a model they are those
    stored with midfea; best measure your own model and images on your machine.

    Examples:

        midfea plan --images 1e8 --cores 512

        midfea plan --images 1e8 --cores 512 --model pets.midfea --sample photos
    """
    require("scale", "midfea plan")
    from midfea.parallel import n_threads
    from midfea.scale.plan import Machines, Work, make_plan

    work = Work(images, dtype, shard_size)
    machines = Machines(
        n_cores=n_threads(None) if cores is None else cores,
        n_gpus=gpus,
        cores_per_node=cores_per_node,
        gpu_images_per_second=gpu_rate,
        bytes_per_second=_bytes_per_second(bandwidth),
        node_bytes_per_second=_bytes_per_second(node_bandwidth),
        training_bytes_per_second=_bytes_per_second(read_rate),
    )
    used = _rates(model, sample, rates)
    made = make_plan(work, machines, used)
    cost = _cost(made, core_price, gpu_price)
    if not as_json:
        return _print_plan(made, machines, used, dtype, cost)
    parts = {"plan": asdict(made), "machines": asdict(machines), "rates": asdict(used)}
    print(json.dumps({**parts, "cost": cost}, indent=1))


def _bytes_per_second(megabytes: float | None) -> float | None:
    return None if megabytes is None else megabytes * MEGABYTE


def _rates(model: Path | None, sample: str | None, name: str) -> Rates:
    """Of the user's model and images, else those that are stored."""
    from midfea.progress import progress_bars
    from midfea.scale.rates import measure, stored

    if (model is None) != (sample is None):
        raise ValueError("--model and --sample belong together: give both, or none for stored rates")
    if model is not None and sample is not None:
        check_model(model)
        with progress_bars():
            return measure(model, sample, f"{model.name} with images of {sample}")
    known = stored()
    if name not in known:
        raise ValueError(f"no stored rates are named {name}; there are {', '.join(known)}")
    return known[name]


def _cost(made: Plan, core_price: float | None, gpu_price: float | None) -> dict[str, float]:
    """Of what has a price."""
    hours = {"cores": (made.core_hours, core_price), "GPUs": (made.gpu_hours, gpu_price)}
    return {name: used * price for name, (used, price) in hours.items() if price is not None}


def _print_plan(
    made: Plan, machines: Machines, rates: Rates, dtype: str, cost: dict[str, float]
) -> None:
    _print_rates(rates)
    limits = [(limit.what, f"{limit.images_per_second:,.0f}") for limit in made.limits]
    if machines.n_gpus and not machines.use_gpus:
        limits.append(("GPUs", "not measured: give --gpu-rate; the plan is for the cores alone"))
    print_table(("limit", "images/s"), limits)
    few = made.n_busy_cores < machines.n_cores
    idle = [("cores with a shard to do", f"{made.n_busy_cores}: smaller shards use more")] if few else []
    print_table(
        (f"{made.n_images:,} images", ""),
        [
            ("limited by", made.limited_by),
            *idle,
            ("time of midfea extract", duration(made.seconds)),
            ("  of this, start of the processes", duration(made.start_seconds)),
            ("nodes", f"{made.n_nodes:,} with {machines.cores_per_node} cores"),
            ("memory of a process", size(made.memory_per_process_bytes)),
            ("memory of a node", size(made.memory_per_node_bytes)),
            ("images to read", size(made.images_bytes)),
            ("manifest", size(made.manifest_bytes)),
            ("features, float32", size(made.float32_bytes)),
            ("features, float16", size(made.float16_bytes)),
            ("scores (--what both)", size(made.scores_bytes)),
            (f"shards ({dtype})", f"{made.n_shards:,} of {size(made.shard_bytes)}"),
            ("read in all", f"{size(made.read_bytes_per_second)}/s"),
            ("written in all", f"{size(made.written_bytes_per_second)}/s"),
            ("read and written by a node", f"{size(made.bytes_per_second_per_node)}/s"),
            ("core hours", f"{made.core_hours:,.1f}"),
            *([("GPU hours", f"{made.gpu_hours:,.1f}")] if machines.use_gpus else []),
            *((f"price of the {name}", f"{price:,.2f}") for name, price in cost.items()),
            ("training, one machine (estimate)", duration(made.training_seconds)),
        ],
    )


def _print_rates(rates: Rates) -> None:
    """Which rates are used, and where they were measured."""
    origin = rates.about
    print(f"Rates: {rates.name}, {rates.n_images} images of {size(rates.image_bytes)}")
    print(f"Measured: {origin['machine']}; {origin['date'][:10]}, commit {origin['commit'][:8]}")
    steps = ("read", "decode", "compute", "write")
    parts = ", ".join(f"{step} {1000 * getattr(rates, f'{step}_seconds'):.2f} ms" for step in steps)
    print(f"An image on one of {rates.n_processes} busy cores: {parts}; {rates.n_features:,} features")
    print("Other machines differ: --model and --sample measure yours.")
    if rates.core_share < MIN_CORE_SHARE:
        busy = f"{100 * (1 - rates.core_share):.0f} %"
        warn(f"other programs took {busy} of the cores while this was measured: the rates are too low")


def size(n_bytes: float) -> str:
    """A number of bytes, such as 3.1 GB."""
    power = 0
    while n_bytes >= 999.5 and power < len(BYTE_UNITS) - 1:
        n_bytes, power = n_bytes / 1000, power + 1
    return f"{n_bytes:,.3g} {BYTE_UNITS[power]}" if n_bytes < 1000 else f"{n_bytes:,.0f} PB"


def duration(seconds: float) -> str:
    """Such as 12 s, 5.0 min, 3.2 h, 4.1 days."""
    for length, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"
