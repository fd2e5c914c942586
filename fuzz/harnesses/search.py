"""The search for words: whatever the points are, the words exist; of ordinary points, the nearest."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.engines.cpu.search import WordIndex
from scratch import note

DIMS = (1, 2, 3, 7, 8, 9, 16, 20, 33, 36, 72, 144)
WORD_COUNTS = (1, 2, 5, 20, 31, 32, 33, 64, 65, 100, 129, 300)
POINT_COUNTS = (0, 1, 2, 7, 15, 16, 17, 33, 70)
EXTREMES = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e20, 1e-20, 1e-40, 1e-45, 0.0, -0.0, 1e10)


def case(random: Random) -> None:
    """Words as a model may have them, points as nobody should."""
    draw = np.random.RandomState(random.randrange(2**32))
    dim, n_words, n = random.choice(DIMS), random.choice(WORD_COUNTS), random.choice(POINT_COUNTS)
    k = random.choice((1, min(2, n_words), min(5, n_words), n_words))
    words = _words(random, draw, n_words, dim)
    points = (words[draw.randint(n_words, size=n)] + draw.normal(0, 0.2, (n, dim))).astype(np.float32)
    hostile = random.random() < 0.7
    if hostile:
        points *= np.float32(random.choice((1, 1, 1e-30, 1e15)))
        for _ in range(random.randrange(1, 4)):
            places = draw.rand(n, 1 if random.random() < 0.5 else dim) < random.choice((0.05, 0.5, 1))
            points = np.where(places, np.float32(random.choice(EXTREMES)), points)
    _keep(words, points, k)
    found, rivals = WordIndex(words).nearest_and_rivals(points, k)
    assert found.shape == (n, k) and found.dtype == np.int32
    if n:
        assert found.min() >= 0 and found.max() < n_words, "no such word"
        assert rivals.min() >= -1 and rivals.max() < n_words, "no such rival"
    if not hostile:
        _check_nearest(found, points, words)


def warm_up() -> None:
    """Compile."""
    WordIndex(np.eye(8, dtype=np.float32)).nearest(np.eye(8, dtype=np.float32))


def _words(random: Random, draw: np.random.RandomState, n: int, dim: int) -> NDArray[np.float32]:
    """Values up to 1, as the model file allows; some equal, zero, or hardly above zero."""
    words = draw.rand(n, dim) * random.choice((1, 1, 1, -1, 1e-3, 1e-20, 1e-42, 0))
    if random.random() < 0.3:
        words[draw.randint(n, size=n // 2 + 1)] = words[draw.randint(n)]
    if random.random() < 0.3:
        words[draw.rand(n) < 0.3] *= random.choice((0, 1e-40, 1e-6))
    return words.astype(np.float32)


def _check_nearest(found: NDArray[np.int32], points: NDArray[Any], words: NDArray[Any]) -> None:
    """The smallest distances in order, each word once; ties within float32's rounding aside."""
    difference = points.astype(float)[:, None] - words.astype(float)
    distances = np.square(difference).sum(axis=-1)
    mine = np.take_along_axis(distances, found.astype(int), axis=1)
    best = np.sort(distances, axis=1)[:, : found.shape[1]]
    scale = max(
        np.square(words).sum(axis=1).max(), np.square(points).sum(axis=1, initial=0).max(initial=0)
    )
    np.testing.assert_allclose(mine, best, atol=4e-6 * scale)
    assert all(len(set(row)) == len(row) for row in found.tolist()), "a word twice"


def _keep(words: NDArray[Any], points: NDArray[Any], k: int) -> None:
    file = io.BytesIO()
    np.savez(file, words=words, points=points, k=k)
    note(file.getvalue())
