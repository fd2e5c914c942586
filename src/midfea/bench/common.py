"""What the sections share: the images to measure with, and timing.

Images are squares of one size, from a folder or from the built-in set. Timing stays fair on a machine
with other work to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.datasets import load_surfaces
from midfea.datasets.folder import find_images, read_photos
from midfea.pictures.resize import Grey, resize
from midfea.progress import progress_bars, track
from midfea.provenance import Row

Image = NDArray[np.uint8]
# Of a section: its rows, lines to print below their table, and what could not be measured.
Measured = tuple[list[Row], list[str], list[str]]
ROUNDS = 5


@dataclass(frozen=True)
class Inputs:
    """What every section is given."""

    photos: Path | None
    size: int  # pixels
    n_images: int
    seed: int = 0
    kymatio: str | None = None

    @cached_property
    def squares(self) -> list[Image]:
        with progress_bars():
            return square_images(self.photos, self.size, self.n_images, self.seed)


def square_images(photos: Path | None, size: int, n: int, seed: int = 0) -> list[Image]:
    """Up to n grey images of size x size pixels; those of a folder are taken from all over it."""
    if photos is None:
        return list(load_surfaces(n_per_class=-(-n // 6), size=size, random_state=seed).images[:n])
    paths = find_images([photos])
    chosen = np.linspace(0, len(paths) - 1, min(n, len(paths))).astype(int)
    read, _ = read_photos([paths[i] for i in chosen], max_side=None)
    if len(read) < 2:
        raise ValueError(f"{photos}: two images or more are needed, found {len(read)}")
    return [_square(photo.picture.grey, size) for photo in read]


def _square(image: Grey, size: int) -> Image:
    if image.dtype != np.uint8:  # 16 bits and more, which SIFT does not take
        image = image * (255 / max(float(image.max()), 1.0))
    return np.ascontiguousarray(resize(image, (size, size)).round(), dtype=np.uint8)


def timed(work: Callable[..., Any], *arguments: Any, **settings: Any) -> tuple[Any, float]:
    """What a call returns, and the milliseconds it takes."""
    begun = time.perf_counter()
    result = work(*arguments, **settings)
    return result, 1e3 * (time.perf_counter() - begun)


def per_image(feature: Callable[[Image], Any], images: Sequence[Image]) -> float:
    """The median time of one image, each given alone: latency, not throughput."""
    return float(np.median([timed(feature, image)[1] for image in images]))


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
