"""Timing that stays fair on a machine with other work to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.progress import track

Image = NDArray[np.uint8]
ROUNDS = 5


def milliseconds(work: Callable[..., Any], *arguments: Any) -> float:
    """How long one call takes."""
    begun = time.perf_counter()
    work(*arguments)
    return 1e3 * (time.perf_counter() - begun)


def per_image(feature: Callable[[Image], Any], images: Sequence[Image]) -> float:
    """The median time of one image, each given alone: latency, not throughput."""
    return float(np.median([milliseconds(feature, image) for image in images]))


def interleaved(
    methods: Mapping[str, Callable[[], float]], what: str, rounds: int = ROUNDS
) -> dict[str, float]:
    """Each method's median over rounds in which all of them take their turn.

    A method is a function that measures one round and returns milliseconds for each image. Whatever
    slows the machine down for a while then slows all of them down. The first round compiles and fills
    caches: it does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in track(range(rounds + 1), what, rounds + 1):
        for name, measure in methods.items():
            times[name].append(measure())
    return {name: float(np.median(values[1:])) for name, values in times.items()}
