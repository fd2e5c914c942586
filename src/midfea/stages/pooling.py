"""Codes to one vector: pooling in the cells of a partition of the image (Section 2.2, footnote 4)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# "pyramid": 1x1, 2x2 and 4x4 cells; "overlapping pyramid": each reaches REACH of its side beyond its
# borders; (rows, columns): one grid; {"size": pixels, "step": pixels}: overlapping square cells, such as
# the paper's 8x8-pixel ones for FG-NET.
Partition = Literal["pyramid", "overlapping pyramid"] | tuple[int, int] | dict[str, int]
Pooling = Literal["max", "sum"]
Level = tuple[NDArray[np.int64], NDArray[np.int64]]

PYRAMID = (1, 2, 4)
REACH = 3  # tenths of a cell's side: something a little displaced then stays in the same cell
MAX_CELLS = 10_000
STRIDE = 2  # pixels between neighbouring descriptors, left by the 2x2 pooling


def pool_cells(
    words: NDArray[Any],
    n_words: int,
    partition: Partition = "pyramid",
    *,
    weights: NDArray[Any] | None = None,
    pooling: Pooling = "max",
    full_shape: tuple[int, int] | None = None,
) -> NDArray[np.float32]:
    """Maximum (or sum) of each word's weights in each cell, the cells one after the other.

    Parameters
    ----------
    words : int array (height, width), the word of each descriptor; with `weights`, both (h, w, k)
    n_words : size of the codebook
    partition : "pyramid", "overlapping pyramid", (rows, columns), or {"size": pixels, "step": pixels}
        for overlapping cells
    pooling : "max" as in the paper. A word that is absent counts as zero, so the result is never
        negative (LLC weights may be). "sum" counts.
    full_shape : the grid on which the cells are laid out, if `words` comes from a smaller scaled
        image; the cells then cover the same parts of the image.

    Returns
    -------
    pooled : float32 array (n_cells * n_words,)

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import pool_cells
    >>> pool_cells(np.array([[0, 1], [2, 2]]), 3, (2, 1)).reshape(2, 3).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    words = np.asarray(words)
    if weights is None:
        words, weights = words[..., None], np.ones((*words.shape, 1), dtype=np.float32)
    levels = partition_levels(partition, words.shape[:2], full_shape)
    return pool_levels(words, weights, n_words, levels, pooling)


def pool_levels(
    words: NDArray[Any],
    weights: NDArray[Any],
    n_words: int,
    levels: list[Level],
    pooling: Pooling = "max",
) -> NDArray[np.float32]:
    """`pool_cells` in cells that are known; words and weights (height, width, k)."""
    if pooling not in ("max", "sum"):
        raise ValueError(f'pooling is "max" or "sum", got {pooling!r}')
    collect = np.maximum.at if pooling == "max" else np.add.at
    cells = []
    for rows, columns in levels:
        for top, bottom in rows:
            for left, right in columns:
                cell = np.zeros(n_words, dtype=np.float32)
                inside = np.s_[top:bottom, left:right]
                collect(cell, words[inside].ravel(), weights[inside].ravel())
                cells.append(cell)
    return np.concatenate(cells)


def partition_levels(
    partition: Partition,
    shape: tuple[int, ...],
    full_shape: tuple[int, int] | None = None,
) -> list[Level]:
    """The cells as products of row and column intervals, a pair of (n, 2) arrays for each level."""
    full = full_shape or (shape[0], shape[1])
    return [
        (rows * shape[0] // full[0], columns * shape[1] // full[1])
        for rows, columns in _full_levels(partition, full)
    ]


def _full_levels(partition: Partition, full: tuple[int, int]) -> list[Level]:
    if isinstance(partition, dict) and set(partition) == {"size", "step"}:
        size, step = (round(partition[name] / STRIDE) for name in ("size", "step"))
        if size < 1 or step < 1:
            raise ValueError(f"cells need a size and a step of {STRIDE} pixels or more: {partition}")
        return [(_overlapping(full[0], size, step), _overlapping(full[1], size, step))]
    return [
        (tenths(n, reach) * full[0] // (10 * n), tenths(m, reach) * full[1] // (10 * m))
        for (n, m), reach in divisions(partition)
    ]


def divisions(partition: Partition) -> list[tuple[tuple[int, int], int]]:
    """The grids of a partition that divides the image: rows and columns, and how far cells reach."""
    if isinstance(partition, str) and partition in ("pyramid", "overlapping pyramid"):
        return [((n, n), REACH if partition == "overlapping pyramid" else 0) for n in PYRAMID]
    if isinstance(partition, tuple | list) and len(partition) == 2:
        rows, columns = partition
        if min(rows, columns) >= 1 and rows * columns <= MAX_CELLS:
            return [((rows, columns), 0)]
    raise ValueError(
        'partition is "pyramid", "overlapping pyramid", (rows, columns) '
        f'with at most {MAX_CELLS} cells, or {{"size": pixels, "step": pixels}}, got {partition!r}'
    )


def tenths(parts: int, reach: int) -> NDArray[np.int64]:
    """Where `parts` cells side by side begin and end, (parts, 2), in tenths of one of them."""
    inner = 10 * np.arange(parts, dtype=np.int64)
    return np.stack([inner - reach, inner + 10 + reach], axis=1).clip(0, 10 * parts)


def _overlapping(length: int, size: int, step: int) -> NDArray[np.int64]:
    """Intervals of one size, the last one stretched to the border."""
    starts = np.arange(0, max(length - size, 0) + 1, step, dtype=np.int64)
    bounds = np.stack([starts, starts + size], axis=1)
    bounds[-1, 1] = length
    return bounds
