"""Scattering coefficients, from an interpreter that has kymatio.

kymatio cannot be installed beside midfea (`midfea bench --help` says where instead). Processes of that
interpreter, one for each thread, take images on standard input and answer with their coefficients.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from midfea.bench.peers import ONE_THREAD
from midfea.pictures.resize import resize
from midfea.pictures.thumbnails import eight_bits
from midfea.stages import unit_length

SIDE, J = 64, 3
SHAPE = (217, SIDE // 2**J, SIDE // 2**J)  # second order, eight angles
PROCESS = f"""
import sys
import numpy
from kymatio.numpy import Scattering2D

transform = Scattering2D(J={J}, shape=({SIDE}, {SIDE}))
while pixels := sys.stdin.buffer.read({SIDE**2}):
    image = numpy.frombuffer(pixels, numpy.uint8).reshape({SIDE}, {SIDE}).astype(numpy.float32) / 255
    sys.stdout.buffer.write(transform(image).astype(numpy.float32).tobytes())
    sys.stdout.buffer.flush()
"""


def scattering(python: str) -> Callable[[list[Any], int], Callable[[Any], Any]]:
    """Makes a function from an image to the logarithms of its coefficients, less their means."""
    own = threading.local()

    def coefficients(image: Any) -> Any:
        if not hasattr(own, "process"):
            own.process = subprocess.Popen(
                [python, "-W", "ignore", "-c", PROCESS],
                env=os.environ | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        own.process.stdin.write(eight_bits(resize(image, (SIDE, SIDE))).tobytes())
        own.process.stdin.flush()
        numbers = np.frombuffer(own.process.stdout.read(4 * int(np.prod(SHAPE))), np.float32)
        return np.log(numbers + 1e-3)

    def make(images: list[Any], seed: int) -> Callable[[Any], Any]:
        mean = np.mean([coefficients(image) for image in images[:: max(1, len(images) // 100)]], axis=0)
        return lambda image: unit_length(coefficients(image) - mean)

    return make
