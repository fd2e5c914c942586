"""Executors on this machine: workers in processes, or one worker and processes that decode for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from midfea.engines import EngineSettings
from midfea.scale.children import CONTEXT, child_ended, end_with_parent
from midfea.scale.decoding import decode_in_processes
from midfea.scale.shards import Shard
from midfea.scale.worker import Executor, Job, Worker

SHARDS_AHEAD = 2  # for each process, so that none waits for its next one
SECONDS_BETWEEN_COUNTS = 0.2


@dataclass(frozen=True)
class Processes:
    """An `Executor` on this machine. The rows are the same for any number of processes.

    n : processes; 1 means this one
    """

    n: int = 1

    def run(self, job: Job, shards: Sequence[Shard]) -> Generator[None, None, None]:
        """See `Executor`."""
        if min(self.n, len(shards)) > 1:
            yield from _in_processes(job, shards, min(self.n, len(shards)))
        elif shards:
            with closing(Worker(job)) as worker:
                for shard in shards:
                    yield from worker.run(shard)


@dataclass(frozen=True)
class DecodeProcesses:
    """An `Executor` on this machine: this process computes, others read and decode images for it.

    For a GPU, which one process uses best. The rows are those of `Processes` with the same engine.

    n : decode processes
    """

    n: int = 1

    def run(self, job: Job, shards: Sequence[Shard]) -> Generator[None, None, None]:
        """See `Executor`."""
        if not shards:
            return
        with closing(Worker(job)) as worker:
            decoded = decode_in_processes(worker.decoder, job.manifest, shards, self.n)
            with closing(decoded):
                for shard in shards:
                    yield from worker.compute(shard, islice(decoded, shard.n_images))


def local_executor(engine: EngineSettings, n_jobs: int) -> Executor:
    """What uses this machine best with that engine and so many processes."""
    return DecodeProcesses(n_jobs) if engine.name == "torch" else Processes(n_jobs)


def _in_processes(job: Job, shards: Sequence[Shard], n_jobs: int) -> Generator[None, None, None]:
    n_done, reported = CONTEXT.Value("q", 0), 0
    waiting, running = iter(shards), set[Future[None]]()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(n_jobs, CONTEXT, _start, (job, n_done))
    try:
        while True:
            room = (1 + SHARDS_AHEAD) * n_jobs - len(running)
            running |= {_submit(pool, shard) for shard in islice(waiting, room)}
            if not running:
                break
            finished, running = wait(running, SECONDS_BETWEEN_COUNTS, FIRST_COMPLETED)
            for future in finished:
                future.result()
            while reported < n_done.value:
                yield
                reported += 1
    except BrokenProcessPool:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()  # the pool waits for one that it has started while it was ending them all
        raise child_ended("worker") from None
    finally:
        pool.shutdown(cancel_futures=True)  # nobody writes any more when this is over


def _submit(pool: ProcessPoolExecutor, shard: Shard) -> Future[None]:
    try:
        return pool.submit(_run, shard)
    except OSError as error:  # a worker ended while the others were being started
        raise BrokenProcessPool(str(error)) from None


# -- in the processes -------------------------------------------------------------------------------

_worker: Worker
_n_done: Any  # images, of all processes together


def _start(job: Job, n_done: Any) -> None:
    global _worker, _n_done
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as it is in the background of a shell
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C: the parent speaks for all
    end_with_parent()
    _worker, _n_done = Worker(job), n_done


def _run(shard: Shard) -> None:
    for _ in _worker.run(shard):
        with _n_done.get_lock():
            _n_done.value += 1
