"""Augmented images: moved, lit or mirrored a little, to learn more from few images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from midfea.pictures.resize import Grey

KINDS = ("mirror", "shift", "scale", "rotate", "light")
SHIFT, SCALE, TURN, GAMMA = 0.08, 0.15, math.radians(8), 0.4
FRAME = 0.25  # of the sides: what may come into sight is the image mirrored at its borders


def augmented_images(
    image: Grey, kinds: Sequence[str], n: int, rng: np.random.RandomState
) -> list[Grey]:
    """`n` images, each changed at random in all the ways named; every second one is mirrored."""
    made = []
    for number in range(n):
        one = changed(image, kinds, rng)
        made.append(one[:, ::-1] if "mirror" in kinds and number % 2 == 0 else one)
    return made


def changed(image: Grey, kinds: Sequence[str], rng: np.random.RandomState) -> Any:
    """The image moved and lit at random."""
    x, y, size, turn, gamma = rng.uniform(-1, 1, 5)
    if {"shift", "scale", "rotate"} & set(kinds):
        shift = SHIFT if "shift" in kinds else 0.0
        image = moved(
            image,
            (shift * x, shift * y),
            math.exp(SCALE * size) if "scale" in kinds else 1.0,
            TURN * turn if "rotate" in kinds else 0.0,
        )
    if "light" in kinds:
        top = 255.0 if image.dtype == np.uint8 else max(float(image.max()), 1e-12)
        lit = (np.maximum(image, 0) / top) ** math.exp(GAMMA * gamma) * top
        image = np.rint(lit).astype(np.uint8) if image.dtype == np.uint8 else lit.astype(np.float32)
    return image


def moved(image: Grey, shift: tuple[float, float], size: float, turn: float) -> Any:
    """Shifted by shares of width and height, enlarged and turned about the middle."""
    height, width = image.shape
    frame = [math.ceil(FRAME * side) for side in (height, width)]
    framed = np.pad(image, [(f, f) for f in frame], mode="symmetric")
    cosine, sine = math.cos(turn) / size, math.sin(turn) / size
    middle = (width / 2, height / 2)
    from_x = middle[0] + frame[1] - cosine * middle[0] + sine * middle[1] - shift[0] * width
    from_y = middle[1] + frame[0] - sine * middle[0] - cosine * middle[1] - shift[1] * height
    source = Image.fromarray(np.ascontiguousarray(framed))
    matrix = (cosine, -sine, from_x, sine, cosine, from_y)
    return np.asarray(
        source.transform((width, height), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    )
