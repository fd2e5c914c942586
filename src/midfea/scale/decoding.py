"""Images that processes read and decode ahead, in the order of the manifest.

The processes take turns, some rows each: as many as can be handed over at once, so that none waits for
its turn before it has done its rows. Each has pictures to hand over while it decodes the next ones, and
a thread takes some ahead. So decoding goes on while the pictures before are computed and written, and
few pictures are in memory.
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
from midfea.scale.children import CONTEXT, child_ended, end_with_parent
from midfea.scale.decoder import Decoded, Decoder, View
from midfea.scale.handover import Receiver, Sender, handover
from midfea.scale.manifest import Manifest, Row
from midfea.scale.shards import Shard

MAX_IMAGES_IN_PART, BYTES_IN_PART = 64, 2**22  # handed over at once
PARTS_AHEAD = 16  # taken before they are needed
LARGE_PICTURES_AHEAD = 4  # if they can be of any size: each is a part


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
        taken = _taken(_parts(Manifest(manifest), shards, images_in_part(decoder.view)), receivers)
        n_ahead = LARGE_PICTURES_AHEAD if decoder.view.max_bytes is None else PARTS_AHEAD
        waiting = deque(thread.submit(next, taken, None) for _ in range(n_ahead))
        while (part := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, taken, None))
            yield from part
    except (EOFError, BrokenPipeError):  # while it worked, or while it was being started
        raise child_ended("decode") from None
    finally:
        for process in processes:  # they write nothing
            process.terminate()
        thread.shutdown(cancel_futures=True)  # it waited for them
        for process, receiver in zip(processes, receivers, strict=True):
            process.join()
            receiver.close()


def images_in_part(view: View) -> int:
    """How many pictures are handed over at once."""
    if view.max_bytes is None:
        return 1
    return min(max(BYTES_IN_PART // view.max_bytes, 1), MAX_IMAGES_IN_PART)


def _taken(parts: Iterable[list[Row]], receivers: Sequence[Receiver]) -> Iterator[list[Decoded]]:
    """The pictures of each part, from the process whose turn it is."""
    for rows, receiver in zip(parts, cycle(receivers), strict=False):
        yield list(map(Decoded, rows, receiver.receive()))


def _parts(manifest: Manifest, shards: Sequence[Shard], n_images: int) -> Iterator[list[Row]]:
    for shard in shards:
        rows = manifest.rows(shard.first, shard.n_images)
        for start in range(0, len(rows), n_images):
            yield rows[start : start + n_images]


# -- in the processes -------------------------------------------------------------------------------


def _decode(
    sender: Sender, decoder: Decoder, manifest: Path, shards: Sequence[Shard], number: int, n: int
) -> None:
    """Every n-th part, from that number on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends its processes
    end_with_parent()
    parts = _parts(Manifest(manifest), shards, images_in_part(decoder.view))
    with linear_algebra_threads(1), suppress(EOFError, OSError):
        for rows in islice(parts, number, None, n):
            sender.send([decoder.decode(row.address) for row in rows])
