"""Images that processes read and decode ahead, in the order of the manifest.

The processes take turns, a batch of rows each. Each has one batch to hand over while it decodes the next
one, and a thread takes a few parts of batches ahead. So decoding goes on while the pictures before are
computed and written, and few pictures are in memory.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

from midfea.parallel import linear_algebra_threads
from midfea.pictures.picture import Picture
from midfea.scale.children import CONTEXT, child_ended, end_with_parent
from midfea.scale.decoder import Decoded, Decoder, Failure
from midfea.scale.handover import Part, Receiver, Sender, handover
from midfea.scale.manifest import Manifest, Row
from midfea.scale.shards import Shard

IMAGES_IN_BATCH = 64
BYTES_IN_PART = 2**22  # handed over as soon as there are so many
PARTS_AHEAD = 4  # taken before they are needed


def decode_in_processes(
    decoder: Decoder, manifest: Path, shards: Sequence[Shard], n: int
) -> Generator[Decoded, None, None]:
    """All rows of some shards in their order, decoded by n processes.

    ChildProcessError if one of them ended. Closing the generator ends them.
    """
    receivers, processes = list[Receiver](), []
    thread = ThreadPoolExecutor(1)
    try:
        for number in range(n):
            receiver, sender = handover()
            arguments = (sender, decoder, manifest, shards, number, n)
            process = CONTEXT.Process(target=_decode, args=arguments, daemon=True)
            process.start()
            sender.close()  # only the process has it now
            receivers.append(receiver)
            processes.append(process)
        taken = _taken(_batches(Manifest(manifest), shards), receivers)
        waiting = deque(thread.submit(next, taken, None) for _ in range(PARTS_AHEAD))
        while (part := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, taken, None))
            yield from part
    except EOFError:
        raise child_ended("decode") from None
    finally:
        for process in processes:  # they write nothing
            process.terminate()
        thread.shutdown(cancel_futures=True)  # it waited for them
        for process, receiver in zip(processes, receivers, strict=True):
            process.join()
            receiver.close()


def _taken(batches: Iterable[list[Row]], receivers: Sequence[Receiver]) -> Iterator[list[Decoded]]:
    """The parts of each batch, from the process whose turn it is."""
    for rows, receiver in zip(batches, cycle(receivers), strict=False):
        n_taken = 0
        while n_taken < len(rows):
            part = receiver.receive()
            of_part = rows[n_taken : n_taken + len(part)]
            yield [Decoded(row, result) for row, result in zip(of_part, part, strict=True)]
            n_taken += len(part)


def _batches(manifest: Manifest, shards: Sequence[Shard]) -> Iterator[list[Row]]:
    for shard in shards:
        rows = manifest.rows(shard.first, shard.n_images)
        for start in range(0, len(rows), IMAGES_IN_BATCH):
            yield rows[start : start + IMAGES_IN_BATCH]


# -- in the processes -------------------------------------------------------------------------------


def _decode(
    sender: Sender, decoder: Decoder, manifest: Path, shards: Sequence[Shard], number: int, n: int
) -> None:
    """Every n-th batch, from that number on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends its processes
    end_with_parent()
    with linear_algebra_threads(1), suppress(EOFError, OSError):
        for rows in islice(_batches(Manifest(manifest), shards), number, None, n):
            for part in _parts(decoder.decode(row.address) for row in rows):
                sender.send(part)


def _parts(results: Iterable[Picture | Failure]) -> Iterator[Part]:
    """A batch, in parts of not many more bytes than `BYTES_IN_PART`."""
    part, n_bytes = Part(), 0
    for result in results:
        part.append(result)
        n_bytes += result.n_bytes if isinstance(result, Picture) else 0
        if n_bytes > BYTES_IN_PART:
            yield part
            part, n_bytes = [], 0
    if part:
        yield part
