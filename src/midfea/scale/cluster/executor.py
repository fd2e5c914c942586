"""`RayCluster`: the machines of a Ray cluster as an executor of shards."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import ray

from midfea.scale.cluster.pool import Pool
from midfea.scale.shards import Shard
from midfea.scale.worker import Job

LOCAL = "local"
SECONDS_TO_CONNECT = 10
MAX_WORKERS_OF_GPU = 16  # each takes some 0.6 GB of its memory besides the model
OBJECT_STORE_BYTES = 100 * 2**20  # little more than the least that Ray allows: no images go through it
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to Ray's makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # without it Ray warns of what it will do some day
}


@dataclass(frozen=True)
class RayCluster:
    """An `Executor` on a Ray cluster. The rows are the same as those of `midfea.scale.local.Processes`.

    If this process is connected to a cluster already, that one is used and stays connected.

    Attributes
    ----------
    address : "auto" or "host:port" of a cluster that runs; "local": one in this machine, for this run
    n : workers; None: one for each CPU of the cluster. With the engine torch they share its GPUs
    """

    address: str = LOCAL
    n: int | None = None

    def run(self, job: Job, shards: Sequence[Shard]) -> Generator[None, None, None]:
        """See `Executor`."""
        if not shards:
            return
        there = {name: getattr(job, name).absolute() for name in ("manifest", "model", "output")}
        with _connected(self.address, self.n):
            resources = ray.cluster_resources()
            n_gpus = int(resources.get("GPU", 0)) if job.engine.name == "torch" else 0
            n_workers = self.n or usual_workers(int(resources.get("CPU", 0)), n_gpus)
            share = gpu_share(n_gpus, n_workers)
            with closing(Pool(replace(job, **there), shards, n_workers, share)) as pool:
                yield from pool.run()


def usual_workers(n_cpus: int, n_gpus: int) -> int:
    """One for each CPU; with GPUs not so many that these have no room for them."""
    return max(1, min(n_cpus, n_gpus * MAX_WORKERS_OF_GPU) if n_gpus else n_cpus)


def gpu_share(n_gpus: int, n_workers: int) -> float:
    """Of each worker, which also decodes: so several share a GPU. Ray counts ten-thousandths."""
    return min(1.0, n_gpus * 10_000 // n_workers / 10_000)


@contextmanager
def _connected(address: str, n_cpus: int | None) -> Iterator[None]:
    """Within this context Ray is there; ConnectionError or ValueError if it cannot be."""
    if address.startswith("ray://"):
        raise ValueError(
            f"{address}: Ray's client cannot be used. Type the command on a node of the cluster, with "
            "--ray auto"
        )
    if ray.is_initialized():
        yield
        return
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    started_here = {
        "num_cpus": n_cpus,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
    }
    try:
        _check_reached(address)
        ray.init(
            address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **(started_here if address == LOCAL else {}),
        )
    except (RuntimeError, OSError) as error:
        token = "" if "RAY_AUTH_MODE" in os.environ else ". If it asks for a token: RAY_AUTH_MODE=token"
        raise ConnectionError(f"no Ray cluster at {address}: {error}{token}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_reached(address: str) -> None:
    """OSError if nobody answers at "host:port": Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
