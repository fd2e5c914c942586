"""`RemoteWorker`: a `Worker` in a process of its own, on any node of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import ray

import midfea
from midfea.scale.shards import Shard
from midfea.scale.worker import Job, Worker

SECONDS_BETWEEN_COUNTS = 0.2


class RemoteWorker:
    """An actor of Ray; its methods run one after the other."""

    _worker: Worker

    def start(self, job: Job, version: str) -> None:
        """Load the model; ValueError or OSError if this node is not as the others.

        version : of midfea, where the run was started
        """
        node = f"on node {ray.util.get_node_ip_address()}"
        if midfea.__version__ != version:
            raise ValueError(
                f"midfea is {midfea.__version__} {node}, and {version} where the run was started: "
                "install the same version everywhere"
            )
        for path in (job.manifest, job.model, job.output):
            if not path.exists():
                raise FileNotFoundError(
                    f"{path}: not there {node}. Manifest, model and output must lie on storage that all "
                    "nodes share, under the same path"
                )
        self._worker = Worker(job)

    def run(self, shard: Shard) -> Iterator[int]:
        """Compute a shard and write it; yields now and then how many of its images are done."""
        context, counted = ray.get_runtime_context(), time.monotonic()
        for n_done, _ in enumerate(self._worker.run(shard), start=1):
            if context.is_canceled():
                return
            if time.monotonic() - counted > SECONDS_BETWEEN_COUNTS:
                yield n_done
                counted = time.monotonic()

    def close(self) -> None:
        """Close the archives; when this is over, nothing is being written any more."""
        self._worker.close()
