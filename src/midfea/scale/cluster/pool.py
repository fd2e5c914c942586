"""The workers of a run, and the shards that they compute. Workers that die are replaced."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import ray
from ray import ObjectRef, ObjectRefGenerator
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError

import midfea
from midfea.scale.cluster.worker import RemoteWorker
from midfea.scale.decoder import MAX_REASON_CHARACTERS
from midfea.scale.shards import Shard
from midfea.scale.worker import Job

MAX_TRIES = 3  # of a shard whose workers die, and of starting a worker
SECONDS_TO_END = 60  # for workers to stop between two images
MAX_NAMED = 5  # shards in an error


class _Task(NamedTuple):
    """What a worker does."""

    worker: ActorHandle
    shard: Shard


class Pool:
    """Workers on the nodes of a cluster, each with one shard at a time.

    A shard whose worker dies is done again, last of all, by another worker.
    """

    def __init__(self, job: Job, shards: Sequence[Shard], n_workers: int, gpu_share: float) -> None:
        """gpu_share : of each worker"""
        self._job = job
        resources = {"num_cpus": 1, "num_gpus": gpu_share, "scheduling_strategy": "SPREAD"}
        self._remote = ray.remote(**resources)(RemoteWorker)
        self._waiting = deque(shards)
        self._starting: dict[ObjectRef, ActorHandle] = {}
        self._running: dict[ObjectRefGenerator, _Task] = {}
        self._idle: list[ActorHandle] = []
        self._n_done = Counter[Shard]()  # images that were told of, whoever did them
        self._n_deaths = Counter[Shard]()  # of workers
        self._n_failed_starts = 0  # one after the other
        for _ in range(min(n_workers, len(shards))):
            self._start()

    def run(self) -> Iterator[None]:
        """Compute all shards; yields once for each image.

        ChildProcessError in the end if workers died of a shard each time; what a worker raises, at once.
        """
        while self._waiting or self._running:
            while self._waiting and self._idle:
                self._hand_out()
            for reference in _ready([*self._starting, *self._running]):
                if reference in self._starting:
                    self._welcome(reference)
                else:
                    yield from self._hear(reference)
        given_up = [shard for shard, n in self._n_deaths.items() if n == MAX_TRIES]
        if given_up:
            raise ChildProcessError(
                f"{MAX_TRIES} workers ended, one after the other, while they did shard "
                f"{_named(given_up)}, perhaps for want of memory. All other shards are kept: type the "
                "same command again"
            )

    def close(self) -> None:
        """End the workers; when this is over, nothing is being written by those that can be reached."""
        busy = [task.worker for task in self._running.values()]
        try:
            for stream in self._running:
                ray.cancel(stream)
            ending = [worker.close.remote() for worker in busy + self._idle]
            if ending:
                ray.wait(ending, num_returns=len(ending), timeout=SECONDS_TO_END)
        finally:
            for worker in (*busy, *self._idle, *self._starting.values()):
                ray.kill(worker)

    def _start(self) -> None:
        worker = self._remote.remote()
        self._starting[worker.start.remote(self._job, midfea.__version__)] = worker

    def _welcome(self, reference: ObjectRef) -> None:
        """A worker has started, or could not."""
        worker = self._starting.pop(reference)
        try:
            ray.get(reference)
        except RayTaskError as error:
            raise (error.cause or error) from None
        except RayError as error:
            self._n_failed_starts += 1
            if self._n_failed_starts == MAX_TRIES:
                reason = str(error).strip().splitlines()[-1][:MAX_REASON_CHARACTERS]
                raise ChildProcessError(
                    "workers cannot start: each node needs midfea with the extra ray, and memory for "
                    f"the model ({reason})"
                ) from None
            self._start()
            return
        self._n_failed_starts = 0
        self._idle.append(worker)

    def _hand_out(self) -> None:
        worker, shard = self._idle.pop(), self._waiting.popleft()
        stream = worker.run.options(num_returns="streaming").remote(shard)
        self._running[stream] = _Task(worker, shard)

    def _hear(self, stream: ObjectRefGenerator) -> Iterator[None]:
        """A worker has done some images, or the whole shard, or has died."""
        worker, shard = self._running[stream]
        try:
            n_done: int = ray.get(next(stream))
        except StopIteration:
            n_done = shard.n_images
            del self._running[stream]
            self._idle.append(worker)
        except RayTaskError as error:
            raise (error.cause or error) from None
        except RayError:
            del self._running[stream]
            self._replace(worker, shard)
            return
        yield from repeat(None, max(0, n_done - self._n_done[shard]))
        self._n_done[shard] = max(n_done, self._n_done[shard])

    def _replace(self, worker: ActorHandle, shard: Shard) -> None:
        """A worker has died, or cannot be reached any more."""
        ray.kill(worker)
        self._n_deaths[shard] += 1
        if self._n_deaths[shard] < MAX_TRIES:
            self._waiting.append(shard)
        if len(self._waiting) > len(self._starting) + len(self._idle):
            self._start()


def _ready(references: list[ObjectRef | ObjectRefGenerator]) -> list[ObjectRef | ObjectRefGenerator]:
    """Wait for the first, and return all that are ready by then."""
    ray.wait(references, fetch_local=False)
    ready, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
    return list(ready)


def _named(shards: Sequence[Shard]) -> str:
    names = [
        f"{shard.name} (images {shard.first} to {shard.first + shard.n_images - 1})"
        for shard in shards[:MAX_NAMED]
    ]
    more = f" and {len(shards) - MAX_NAMED} more" if len(shards) > MAX_NAMED else ""
    return ", ".join(names) + more
