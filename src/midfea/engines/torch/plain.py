"""The stages as functions of tensors: any device, any float type, many images of one size at a time.

Every function is differentiable where its stage is. Which words are near is a choice: `nearest` has no
gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray

from midfea.engines.chain import Chain
from midfea.pictures.resize import ROUNDED_UNIT
from midfea.pictures.resize import weights as resize_weights
from midfea.stages.low_level import EQUAL, FLAT
from midfea.stages.pooling import Partition, partition_levels

Tensor = Any  # torch.Tensor, where torch is installed
Weigh = Callable[[Tensor, Tensor, Tensor, Chain], Tensor]  # points, words, which ones, chain: weights

# Scores of descriptors x words that exist at one time: they are never stored whole.
SCORES = {"cuda": 2**26, "cpu": 2**20}


def resize(pixels: Any, shape: tuple[int, int], rounded: bool = False) -> Any:
    """Images (n, height, width), uint8 or float32, at another `shape`; see `pictures.resize`."""
    if tuple(pixels.shape[1:]) == shape:
        return pixels
    rows, columns = (
        torch.as_tensor(resize_weights(before, after).toarray(), device=pixels.device)
        for before, after in zip(pixels.shape[1:], shape, strict=True)
    )
    numbers = pixels.double()
    if not rounded or pixels.dtype != torch.uint8:
        return (rows @ numbers @ columns.T).float()
    return _rounded(_whole(rows) @ _rounded(numbers @ _whole(columns).T)).to(torch.uint8)


def _whole(exact: Any) -> Any:
    return (exact * ROUNDED_UNIT + 0.5).floor()


def _rounded(sums: Any) -> Any:
    return ((sums + ROUNDED_UNIT / 2) / ROUNDED_UNIT).floor().clamp(0, 255)


def mirrored(pixels: Tensor, filter_shape: tuple[int, int]) -> Tensor:
    """(n, height, width) with the mirrored borders of padding="same"."""
    for axis, size in enumerate(filter_shape, start=1):
        places = np.pad(np.arange(pixels.shape[axis]), ((size - 1) // 2, size // 2), mode="symmetric")
        pixels = pixels.index_select(axis, torch.as_tensor(places, device=pixels.device))
    return pixels


def convolve(pixels: Tensor, filters: Tensor) -> Tensor:
    """`stages.convolve` of pixels that have their borders: (n, n_filters, height, width)."""
    if min(filters.shape[1:]) >= 7:
        return functional.conv2d(pixels[:, None], filters[:, None])
    # Libraries may convolve with small filters by Winograd's method: not exact for 8-bit pixels.
    windows = pixels.unfold(1, filters.shape[1], 1).unfold(2, filters.shape[2], 1)
    return torch.tensordot(windows, filters, dims=((3, 4), (1, 2))).permute(0, 3, 1, 2)


def squared_lengths(responses: Tensor) -> Tensor:
    """Of the responses at each place, (n, height, width), in float64: exact for 8-bit pixels."""
    return responses.double().square().sum(dim=1)


def flat_squares(pixels: Tensor, mean_squares: Tensor | None, floor: float) -> Tensor:
    """`stages.flat_below` squared, (n,) float64; the mean squares matter only where there is a floor."""
    pixels = pixels.detach().flatten(1)
    largest = pixels.amax(dim=1) if pixels.dtype == torch.uint8 else pixels.abs().amax(dim=1)
    flat = (FLAT * largest.double()).square()
    return flat if mean_squares is None else torch.maximum(flat, floor**2 * mean_squares)


def soft_convolution(responses: Tensor, flat: Tensor, rectify: bool) -> Tensor:
    """What `stages.soft_convolution` does with the responses."""
    squares = squared_lengths(responses)
    some = squares > flat[:, None, None]
    scale = torch.where(some, squares, 1).rsqrt() * some
    maps = (responses.abs() if rectify else responses) * scale[:, None].to(responses.dtype)
    return unit_length(torch.relu(maps - maps.mean(dim=1, keepdim=True)), 1, EQUAL)


def unit_length(values: Tensor, dim: int, least: float = 0.0) -> Tensor:
    """Vectors along `dim` at length 1; zero where they are not longer than `least`."""
    squares = values.square().sum(dim=dim, keepdim=True)
    some = squares > least**2
    return values * (torch.where(some, squares, 1).rsqrt() * some)


def max_pool_3d(maps: Tensor, pairs: bool) -> Tensor:
    """`stages.max_pool_3d` of maps (n, n_maps, height, width)."""
    pooled = functional.max_pool2d(maps, 2, ceil_mode=True)
    if not pairs:
        return pooled
    first, second = np.array(list(itertools.combinations(range(maps.shape[1]), 2))).T.tolist()
    return torch.maximum(pooled[:, first], pooled[:, second])


def assemble(maps: Tensor, window: int) -> Tensor:
    """`stages.assemble_descriptors` of maps (n, n_maps, height, width): (n, rows, columns, d)."""
    windows = maps.unfold(2, window, 1).unfold(3, window, 1).permute(0, 2, 3, 4, 5, 1)
    return unit_length(windows.flatten(3), 3)


def nearest(points: Tensor, words: Tensor, k: int) -> Tensor:
    """`stages.nearest_words` of points (m, d): (m, k), the first ones if some tie."""
    with torch.no_grad():
        half = words.square().sum(dim=1) / 2
        found = []
        for part in points.split(max(1, SCORES[points.device.type] // len(words))):
            scores = torch.addmm(-half, part, words.T)
            best = [scores.argmax(dim=1)]  # of equal scores the first, which topk does not promise
            for _ in range(k - 1):
                scores.scatter_(1, best[-1][:, None], -torch.inf)
                best.append(scores.argmax(dim=1))
            found.append(torch.stack(best, dim=1))
        return torch.cat(found) if found else torch.empty((0, k), dtype=torch.int64)


def encode(
    points: Tensor, words: Tensor, chain: Chain, llc: Weigh | None = None
) -> tuple[Tensor, Tensor | None]:
    """Words and weights (m, k) of points (m, d); no weights for VQ. `llc`: another `llc_weights`."""
    if chain.encoding == "vq":
        return nearest(points, words, 1), None
    found = nearest(points, words, chain.n_neighbors)
    weigh = soft_weights if chain.encoding == "soft" else llc or llc_weights
    return found, weigh(points, words, found, chain)


def soft_weights(points: Tensor, words: Tensor, found: Tensor, chain: Chain) -> Tensor:
    """Weights of `stages.soft_codes`, in float64 as there."""
    distances = (words.double()[found] - points.double()[:, None]).square().sum(dim=2)
    return torch.softmax(-chain.sharpness * distances, dim=1).to(points.dtype)


def llc_weights(points: Tensor, words: Tensor, found: Tensor, chain: Chain) -> Tensor:
    """Weights of `stages.llc_codes`: for each point a k x k system, all solved side by side."""
    near = words.double()[found] - points.double()[:, None]
    k = found.shape[1]
    gram = [[(near[:, a] * near[:, b]).sum(dim=1) for b in range(a + 1)] for a in range(k)]
    ridge = 1e-4 * sum(gram[a][a] for a in range(k)) + 1e-12
    lower: list[list[Tensor]] = []  # Cholesky: gram + ridge = L L^T
    solution: list[Tensor] = []  # first L^-1 1, then (L L^T)^-1 1
    for a in range(k):
        lower.append([])
        for b in range(a + 1):
            value = gram[a][b] - sum(lower[a][c] * lower[b][c] for c in range(b))
            lower[a].append((value + ridge).sqrt() if a == b else value / lower[b][b])
        solution.append((1 - sum(lower[a][c] * solution[c] for c in range(a))) / lower[a][a])
    for a in reversed(range(k)):
        known = sum(lower[c][a] * solution[c] for c in range(a + 1, k))
        solution[a] = (solution[a] - known) / lower[a][a]
    weights = torch.stack(solution, dim=1)
    return (weights / weights.sum(dim=1, keepdim=True)).to(points.dtype)


@lru_cache(maxsize=1024)
def _places(
    partition: Any, shape: tuple[int, int], full_shape: tuple[int, int], rows: tuple[int, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Which place of these rows lies in which cell, one pair for each such fact."""
    places: list[NDArray[np.int32]] = []
    cells: list[NDArray[np.int32]] = []
    numbers = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    partition = dict(partition) if isinstance(partition, frozenset) else partition
    for level in partition_levels(partition, shape, full_shape):
        for (top, bottom), (left, right) in itertools.product(*level):
            inside = numbers[max(top, rows[0]) : min(bottom, rows[1]), left:right].ravel()
            places.append(inside - rows[0] * shape[1])
            cells.append(np.full(len(inside), len(cells), dtype=np.int32))
    return np.concatenate(places), np.concatenate(cells)


def n_cells(partition: Partition, shape: tuple[int, int]) -> int:
    """Cells of a grid of descriptors."""
    return sum(len(rows) * len(columns) for rows, columns in partition_levels(partition, shape))


def pool(
    words: Tensor,
    weights: Tensor | None,
    n_words: int,
    chain: Chain,
    shape: tuple[int, int],
    full_shape: tuple[int, int],
    rows: tuple[int, int],
    table: Tensor,
) -> Tensor:
    """`stages.pool_cells` of some rows of the grid `shape`, joined to `table` (n, n_cells * n_words).

    words, weights : (n, number of descriptors in these rows, k)
    """
    partition: Any = chain.partition  # as a key
    partition = frozenset(partition.items()) if isinstance(partition, dict) else partition
    partition = tuple(partition) if isinstance(partition, list) else partition
    places, cells = (
        torch.as_tensor(numbers, device=words.device).long()
        for numbers in _places(partition, shape, full_shape, rows)
    )
    targets = (words[:, places] + cells[:, None] * n_words).flatten(1)
    if weights is None:
        weights = torch.ones((), dtype=table.dtype, device=table.device).expand(targets.shape)
    else:
        weights = weights[:, places].flatten(1)
    if chain.pooling == "sum":
        return table.scatter_add(1, targets, weights)
    return table.scatter_reduce(1, targets, weights, "amax")


def strips(n_rows: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Rows 0 .. n_rows in equal parts of `at_most` rows or fewer."""
    n = -(-n_rows // max(1, at_most))
    edges = [n_rows * i // n for i in range(n + 1)]
    return itertools.pairwise(edges)


def prepare(pixels: Tensor, chain: Chain, dtype: Any) -> Tensor:
    """Pixels as numbers, with the borders that the filters need."""
    pixels = pixels.to(dtype)
    return mirrored(pixels, chain.filters.shape[1:]) if chain.padding == "same" else pixels


def describe_rows(
    pixels: Tensor, filters: Tensor, flat: Tensor, chain: Chain, rows: tuple[int, int]
) -> Tensor:
    """Descriptors of these rows of the grid, from pixels that have their borders."""
    top, bottom = 2 * rows[0], 2 * (rows[1] + chain.window - 1) + filters.shape[1] - 1
    responses = convolve(pixels[:, top:bottom], filters)
    maps = max_pool_3d(soft_convolution(responses, flat, chain.rectify), chain.pairs)
    return assemble(maps, chain.window)


def flat_of(pixels: Tensor, filters: Tensor, chain: Chain, at_most: int) -> Tensor:
    """`flat_squares` of images that have their borders, `at_most` rows at a time."""
    if not chain.floor:
        return flat_squares(pixels, None, 0.0)
    size = filters.shape[1]
    total, height = 0, pixels.shape[1] - size + 1
    for top, bottom in strips(height, at_most):
        responses = convolve(pixels[:, top : bottom + size - 1], filters)
        total = total + squared_lengths(responses).sum(dim=(1, 2))
    return flat_squares(pixels, total / (height * (pixels.shape[2] - size + 1)), chain.floor)
