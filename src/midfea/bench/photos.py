"""The images to measure with: squares of one size, from a folder or from the built-in set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from midfea.bench.timing import Image
from midfea.datasets import load_surfaces
from midfea.datasets.folder import find_images, read_photos
from midfea.pictures.resize import Grey, resize
from midfea.progress import progress_bars
from midfea.provenance import Row

# Of a section: its rows, lines to print below their table, and what could not be measured.
Measured = tuple[list[Row], list[str], list[str]]


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
