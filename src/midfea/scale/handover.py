"""Pictures from one process to another: their pixels in memory that both share, the rest in a pipe.

A pipe alone copies pixels four times: 21 microseconds for a picture of 67 kB, 16 of them of the
receiver's processor. This way it is 6 and 4 (benchmarks/decoding.py).
"""

from __future__ import annotations

import ctypes
import pickle
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.picture import Picture
from midfea.scale.children import CONTEXT
from midfea.scale.decoder import Failure

SHARED_BYTES = 2**23
READY = b""  # the shared memory may be written again

Part = list[Picture | Failure]  # handed over together


class _End:
    """What both ends have: a connection and the shared memory. It can be sent to a new process."""

    def __init__(self, connection: Connection, shared: Any) -> None:
        self._connection, self._shared = connection, shared

    @property
    def _pixels(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._shared, np.uint8)

    def close(self) -> None:
        """Close the connection; the other end notices."""
        self._connection.close()


class Sender(_End):
    """The end that hands over; it waits until what it handed over before has been taken."""

    def send(self, part: Part) -> None:
        """Hand over a part; EOFError or OSError if the other end is closed."""
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps(part, 5, buffer_callback=buffers.append)
        planes = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        sizes = [len(plane) for plane in planes]
        if sum(sizes) > len(self._shared):  # large pictures are few
            content, sizes = pickle.dumps(part, 5), []
        self._connection.recv_bytes()  # READY
        if sizes:
            np.concatenate(planes, out=self._pixels[: sum(sizes)])
        self._connection.send((content, sizes))


class Receiver(_End):
    """The end that takes."""

    def receive(self) -> Part:
        """The next part; EOFError if the other end is closed."""
        try:
            self._connection.send_bytes(READY)
            content, sizes = self._connection.recv()
        except OSError as error:  # in the middle of a message, say
            raise EOFError(str(error)) from None
        pixels = self._pixels[: sum(sizes)].copy()
        part: Part = pickle.loads(content, buffers=np.split(pixels, np.cumsum(sizes)[:-1]))
        return part


def handover(shared_bytes: int = SHARED_BYTES) -> tuple[Receiver, Sender]:
    """Both ends; nothing of them stays when their processes end."""
    shared = CONTEXT.RawArray(ctypes.c_uint8, shared_bytes)
    mine, others = CONTEXT.Pipe()
    return Receiver(mine, shared), Sender(others, shared)
