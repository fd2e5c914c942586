"""`make_plan`: what `midfea extract` of many images takes, by arithmetic from measured rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from midfea.scale.rates import Rates

BYTES_OF = {"float32": 4, "float16": 2}
SECONDS_PER_HOUR = 3600
TRAINING_READINGS = 60  # of all features: as long as training from a million rows took


@dataclass(frozen=True)
class Work:
    """The images whose features are computed; ValueError if there are none.

    dtype : "float32" or "float16", of the features that are written
    shard_size : images of a shard
    """

    n_images: int
    dtype: str = "float32"
    shard_size: int = 1000

    def __post_init__(self) -> None:
        _check_counts({"images": self.n_images, "images of a shard": self.shard_size})

    @property
    def n_shards(self) -> int:
        """The last one may be smaller."""
        return math.ceil(self.n_images / self.shard_size)


@dataclass(frozen=True)
class Machines:
    """What is there to compute with; ValueError if that is nothing.

    Attributes
    ----------
    n_cores : each runs one process; with GPUs these are the decode processes
    n_gpus : in all
    cores_per_node : of each machine
    gpu_images_per_second : what one GPU computes, without writing; None: not measured, GPUs are left out
    bytes_per_second : what the storage reads and writes in all; None: never the limit
    node_bytes_per_second : what one node's network carries; None: never the limit
    training_bytes_per_second : at which one machine reads features; None: as measured
    """

    n_cores: int
    n_gpus: int = 0
    cores_per_node: int = 32
    gpu_images_per_second: float | None = None
    bytes_per_second: float | None = None
    node_bytes_per_second: float | None = None
    training_bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        if self.n_cores < 1:
            raise ValueError(
                f"cores: 1 or more are needed, got {self.n_cores}; GPUs need them to decode"
            )
        if self.n_gpus < 0:
            raise ValueError(f"GPUs: 0 or more, got {self.n_gpus}")
        _check_counts({"cores per node": self.cores_per_node})
        _check_rates(
            {
                "rate of a GPU": self.gpu_images_per_second,
                "bandwidth": self.bytes_per_second,
                "bandwidth of a node": self.node_bytes_per_second,
                "read rate": self.training_bytes_per_second,
            }
        )

    @property
    def n_nodes(self) -> int:
        """Machines with that many cores, the last one perhaps not full."""
        return math.ceil(self.n_cores / self.cores_per_node)

    @property
    def use_gpus(self) -> bool:
        """Whether there are GPUs of a known rate."""
        return self.n_gpus > 0 and self.gpu_images_per_second is not None


@dataclass(frozen=True)
class Limit:
    """How many images a second one thing allows."""

    what: str
    images_per_second: float


@dataclass(frozen=True)
class Plan:
    """What the work takes. Bytes, seconds and hours are of all images, unless the name says otherwise.

    Attributes
    ----------
    limits : the least of them is the rate, `images_per_second`; its name is `limited_by`
    n_busy_cores : those that have a shard to do
    shard_bytes : of one full shard, and written_bytes of all: the features in the chosen numbers
    scores_bytes : what --what both adds
    read_bytes_per_second, written_bytes_per_second : of all nodes together, at that rate
    seconds : start_seconds and work_seconds
    memory_per_node_bytes : of a full node
    training_seconds : reading the features TRAINING_READINGS times on one machine; an estimate
    """

    n_images: int
    images_bytes: float
    manifest_bytes: float
    float32_bytes: int
    float16_bytes: int
    scores_bytes: int
    written_bytes: int
    n_shards: int
    shard_bytes: int
    limits: tuple[Limit, ...]
    images_per_second: float
    limited_by: str
    n_busy_cores: int
    start_seconds: float
    work_seconds: float
    seconds: float
    read_bytes_per_second: float
    written_bytes_per_second: float
    n_nodes: int
    bytes_per_second_per_node: float
    memory_per_process_bytes: int
    memory_per_node_bytes: int
    core_hours: float
    gpu_hours: float
    training_seconds: float


def make_plan(work: Work, machines: Machines, rates: Rates) -> Plan:
    """What `midfea extract` of these images takes on these machines."""
    n_images = work.n_images
    written_per_image = rates.n_features * BYTES_OF[work.dtype]
    per_image = rates.image_bytes + written_per_image
    limits = _limits(work, machines, rates, per_image)
    least = min(limits, key=lambda limit: limit.images_per_second)
    rate = least.images_per_second
    work_seconds = n_images / rate
    seconds = rates.start_seconds + work_seconds
    training_rate = min(
        machines.training_bytes_per_second or rates.read_features_bytes_per_second,
        machines.node_bytes_per_second or math.inf,
        machines.bytes_per_second or math.inf,
    )
    return Plan(
        n_images=n_images,
        images_bytes=n_images * rates.image_bytes,
        manifest_bytes=n_images * rates.manifest_bytes,
        float32_bytes=n_images * rates.n_features * BYTES_OF["float32"],
        float16_bytes=n_images * rates.n_features * BYTES_OF["float16"],
        scores_bytes=n_images * rates.n_classes * BYTES_OF["float32"],
        written_bytes=n_images * written_per_image,
        n_shards=work.n_shards,
        shard_bytes=min(work.shard_size, n_images) * written_per_image,
        limits=limits,
        images_per_second=rate,
        limited_by=least.what,
        n_busy_cores=machines.n_cores if machines.use_gpus else min(machines.n_cores, work.n_shards),
        start_seconds=rates.start_seconds,
        work_seconds=work_seconds,
        seconds=seconds,
        read_bytes_per_second=rate * rates.image_bytes,
        written_bytes_per_second=rate * written_per_image,
        n_nodes=machines.n_nodes,
        bytes_per_second_per_node=rate * per_image / machines.n_nodes,
        memory_per_process_bytes=rates.process_bytes,
        memory_per_node_bytes=rates.process_bytes * min(machines.cores_per_node, machines.n_cores),
        core_hours=machines.n_cores * seconds / SECONDS_PER_HOUR,
        gpu_hours=machines.n_gpus * seconds / SECONDS_PER_HOUR if machines.use_gpus else 0.0,
        training_seconds=TRAINING_READINGS * n_images * written_per_image / training_rate,
    )


def _limits(work: Work, machines: Machines, rates: Rates, per_image: float) -> tuple[Limit, ...]:
    """What each part of the machines allows.

    per_image : bytes that are read and written
    """
    limits = []
    if machines.gpu_images_per_second is not None and machines.n_gpus:
        of_gpu = 1 / (1 / machines.gpu_images_per_second + rates.write_seconds)
        limits.append(Limit("GPUs", min(machines.n_gpus, work.n_shards) * of_gpu))
        limits.append(Limit("cores that decode", machines.n_cores / rates.feeding_seconds))
    else:
        # Each process does whole shards: 600 of them take 512 cores as long as 1024 do.
        shards_of_one = math.ceil(work.n_shards / machines.n_cores)
        images_of_one = min(shards_of_one * work.shard_size, work.n_images)
        limits.append(Limit("cores", work.n_images / (images_of_one * rates.image_seconds)))
    if machines.bytes_per_second is not None:
        limits.append(Limit("storage", machines.bytes_per_second / per_image))
    if machines.node_bytes_per_second is not None:
        of_nodes = machines.n_nodes * machines.node_bytes_per_second
        limits.append(Limit("network of the nodes", of_nodes / per_image))
    return tuple(limits)


def _check_counts(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}: 1 or more are needed, got {count}")


def _check_rates(rates: Mapping[str, float | None]) -> None:
    for name, rate in rates.items():
        if rate is not None and not 0 < rate < math.inf:
            raise ValueError(f"{name}: more than 0 is needed, got {rate:g}")
