"""The images to measure with: squares of one size, from a folder or from the built-in set."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from midfea.bench.timing import Image
from midfea.datasets import load_surfaces
from midfea.datasets.folder import find_images, read_images
from midfea.pictures.images import Grey, resize


def square_images(photos: Path | None, size: int, n: int, seed: int = 0) -> list[Image]:
    """Up to n grey images of size x size pixels; those of a folder are taken from all over it."""
    if photos is None:
        return list(load_surfaces(n_per_class=-(-n // 6), size=size, random_state=seed).images[:n])
    paths = find_images([photos])
    chosen = np.linspace(0, len(paths) - 1, min(n, len(paths))).astype(int)
    found = read_images([paths[i] for i in chosen], max_side=None)[0]
    if len(found) < 2:
        raise ValueError(f"{photos}: two images or more are needed, found {len(found)}")
    return [_square(image, size) for image in found]


def _square(image: Grey, size: int) -> Image:
    if image.dtype != np.uint8:  # 16 bits and more, which SIFT does not take
        image = image * (255 / max(float(image.max()), 1.0))
    return np.ascontiguousarray(resize(image, (size, size)), dtype=np.uint8)
