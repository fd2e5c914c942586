"""Local features that MidFea is compared with, as maps (height, width, channel), and what they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from midfea.extras import require
from midfea.pictures.images import Images, Pictures
from midfea.pictures.resize import Grey
from midfea.pictures.thumbnails import eight_bits
from midfea.progress import track
from midfea.stages import unit_length

Image = TypeVar("Image")
CELL = 8  # pixels of a HOG cell
SIFT_PATCH = 16  # pixels across a SIFT descriptor, as in ScSPM


def grey_images(images: Any, max_side: int | None = None, min_side: int = 1) -> list[Grey]:
    """Grey pixels, white at 255, of images as users give them; the longer side at most `max_side`.

    ImageError names an image of which a side is shorter than `min_side`.
    """
    pictures = Pictures(Images(images), max_side, min_side)
    return [p.grey if p.white == 255 else p.grey * np.float32(255 / p.white) for p in pictures]


def hog_maps(image: Grey) -> NDArray[np.float32]:
    """Nine orientations in cells of 8x8 pixels, normalised in blocks of 2x2 cells: 36 maps."""
    gy, gx = np.gradient(image.astype(np.float32))
    strength = np.hypot(gx, gy)
    angle = np.mod(np.arctan2(gy, gx), np.pi) * 9 / np.pi
    lower = np.floor(angle).astype(int) % 9
    part = angle - np.floor(angle)
    votes = np.zeros((*image.shape, 9), dtype=np.float32)
    rows, columns = np.indices(image.shape)
    votes[rows, columns, lower] = strength * (1 - part)
    votes[rows, columns, (lower + 1) % 9] += strength * part
    height, width = image.shape[0] // CELL, image.shape[1] // CELL
    cells = votes[: height * CELL, : width * CELL]
    cells = cells.reshape(height, CELL, width, CELL, 9).sum(axis=(1, 3))
    blocks = np.concatenate(
        [cells[i : height - 1 + i, j : width - 1 + j] for i in (0, 1) for j in (0, 1)], axis=2
    )
    return np.asarray(blocks / (np.linalg.norm(blocks, axis=2, keepdims=True) + 1e-3))


def sift_maps(image: Grey, step: int = 2) -> NDArray[np.float32]:
    """SIFT descriptors, upright and of unit length, at every `step`-th pixel: 128 maps."""
    cv2 = require_cv2()
    rows, columns = range(0, image.shape[0], step), range(0, image.shape[1], step)
    # OpenCV draws a descriptor from 4x4 squares whose side is 3/2 of the keypoint's size.
    points = [cv2.KeyPoint(float(x), float(y), SIFT_PATCH / 6, 0) for y in rows for x in columns]
    _, descriptors = cv2.SIFT_create().compute(np.ascontiguousarray(eight_bits(image)), points)
    return unit_length(descriptors.reshape(len(rows), len(columns), 128))


def sample_descriptors(
    images: Sequence[Image],
    describe: Callable[[Image], NDArray[Any]],
    n: int,
    rng: np.random.RandomState,
) -> NDArray[np.float32]:
    """About n descriptors from random places, the same number from each image."""
    n_per_image = -(-n // len(images))
    parts = []
    for image in track(images, "describing", len(images)):
        points = describe(image)
        points = points.reshape(-1, points.shape[-1])
        parts.append(points[rng.choice(len(points), min(n_per_image, len(points)), replace=False)])
    return np.concatenate(parts)


def require_cv2() -> ModuleType:
    """OpenCV, or the line to type."""
    try:
        import cv2
    except ImportError:
        require("bench", "SIFT")
        raise
    module: Any = cv2
    return module
