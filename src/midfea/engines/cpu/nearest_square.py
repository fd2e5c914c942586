"""The squared distance of points to the nearest of many others, in whole numbers: exact on any machine.

Points are rows of bytes. For a point q and a row c of the set, |q - c|^2 = |q|^2 - (2 q.c - |c|^2), so
what is looked for is the largest score 2 q.c - |c|^2. Tiles of the products are made in registers
(`tiles.panel_tops`); nothing of the size points x set is stored.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfea.engines.cpu.tiles import PANEL, ROWS, panel_tops

MAX_DIM = 256  # scores of longer rows of bytes may pass 2^24, above which float32 skips whole numbers
NO_ROW = -(2**30)  # the score of a column that fills the last panel


def nearest_squares(points: NDArray[np.uint8], rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """For each point (n, d) its squared distance to the nearest of the rows (m, d).

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.engines.cpu.nearest_square import nearest_squares
    >>> nearest_squares(np.array([[0, 0], [9, 9]], np.uint8), np.array([[3, 4], [9, 8]], np.uint8))
    array([25,  1])
    """
    if points.dtype != np.uint8 or rows.dtype != np.uint8:
        raise TypeError(f"points and rows must be uint8, got {points.dtype} and {rows.dtype}")
    n, dim = points.shape
    if rows.shape[1] != dim or not 0 < dim <= MAX_DIM or not len(rows):
        raise ValueError(
            f"points (n, d) and one row or more (m, d), d up to {MAX_DIM}, are needed: "
            f"got {points.shape} and {rows.shape}"
        )
    twice = np.zeros((n + -n % ROWS, dim + dim % 2), dtype=np.int16)
    twice[:n, :dim] = points
    twice *= 2
    best = np.full(len(twice), -np.inf, dtype=np.float32)
    _largest_scores(twice, np.ascontiguousarray(rows), best)
    squares = np.square(points, dtype=np.int64).sum(axis=1)
    return squares - best[:n].astype(np.int64)


@njit(cache=True, nogil=True)
def _largest_scores(twice, rows, best):  # type: ignore[no-untyped-def]
    """Raise each of `best` to the largest score of its point; `twice` holds two times the points."""
    n, depth = twice.shape
    dim = rows.shape[1]
    panels = np.zeros((1, depth // 2, PANEL, 2), dtype=np.int16)  # the layout that `panel_tops` needs
    biases = np.empty(PANEL, dtype=np.int32)
    tops = np.empty((n, 1), dtype=np.float32)
    for start in range(0, len(rows), PANEL):
        for column in range(PANEL):
            biases[column] = NO_ROW
            if start + column < len(rows):
                square = np.int32(0)
                for d in range(dim):
                    value = np.int32(rows[start + column, d])
                    panels[0, d // 2, column, d % 2] = value
                    square += value * value
                biases[column] = -square
        for group in range(0, n, ROWS):
            panel_tops(twice, group, depth, panels, biases, 0, tops, 1)
        for point in range(n):
            best[point] = max(best[point], tops[point, 0])
