"""The paper's chain in kernels of our own: hard VQ, max pooling, cells that do not overlap.

The nearest word of a descriptor x has the largest score s(c) = x.c - |c|^2 / 2. Tensor cores multiply
the float16 roundings x' and c', which gives a(c) = x'.c' + c.(c - c') - |c|^2 / 2; the middle term is
known beforehand and makes the error small near the word. With e = |x - x'|, f the largest |c - c'|,

    (s1 - s2) - (a1 - a2) = (x - x').(c1 - c2) + (x' - c1).(c1 - c1') - (x' - c2).(c2 - c2').

If a word 2 were nearer than the word 1 with the best a, |x - c2| <= |x - c1| =: r, the right-hand side
would be at least -2 (r (e + f) + e f). So where the second best a is farther away than that (and than
what sums of float32 and the bits given up may lose), word 1 is the nearest: `kernels.assign`. The few
other descriptors are compared again with scores as good as float32's, `kernels.settle`.

`precision="fast"` leaves out the check and the second comparison: the word found is then the nearest
but for that margin. For unit descriptors and words, e and f are below 2^-11 each, so the squared
distance is larger than the nearest word's by less than 4 r 2^-10 (for r = 0.4: 0.0016). On photographs
one code in 1500 differs (`benchmarks/gpu.py` counts them).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from triton.tools.tensor_descriptor import TensorDescriptor

from midfea.engines.chain import Chain
from midfea.engines.torch import kernels, plain
from midfea.stages.low_level import EQUAL
from midfea.stages.pooling import divisions, partition_levels

PLACES = 64  # of the pooled grid, in one program
BLOCK, WORDS, WARPS, STAGES = 128, 128, 4, 2  # of `assign`
SETTLE, SETTLE_WORDS = 64, 64  # of `settle`
ROUNDING = 1.5e-5  # sums of 160 products near 1 in float32, and 7 bits given up
NEVER = -60000.0  # the bias of words that fill the last tile


def can_run(chain: Chain) -> bool:
    """Whether the kernels know this chain; `plain` knows them all."""
    square = chain.filters.shape[1] == chain.filters.shape[2]
    values = chain.window**2 * triton.next_power_of_2(len(chain.filters) + 1)
    small = chain.window in (1, 2, 4) and 16 <= values <= 64 and 16 <= chain.n_components <= 222
    hard = chain.encoding == "vq" and chain.pooling == "max"
    if not (square and small and hard) or isinstance(chain.partition, dict):
        return False
    return not any(reach for _, reach in divisions(chain.partition))  # a place lies in one cell


@dataclass(frozen=True)
class Prepared:
    """What the kernels read, on the device."""

    filters: Any  # (size * size, n_filters)
    selections: tuple[Any, ...]  # first, second, first_rest, second_rest
    words: tuple[Any, ...]  # words, rest: for `assign`
    all_words: tuple[Any, ...]  # words, rest, words_low, rest_low: for `settle`
    n_filled: int  # words and what fills the last tile
    shapes: dict[str, int]
    bounds: dict[str, float]


def prepare(chain: Chain, device: Any) -> Prepared:
    """Filters and words for images of any size."""
    n, d = len(chain.filters), chain.n_components
    channels = triton.next_power_of_2(n + 1)
    depth = 1 << (d.bit_length() - 1)
    filled = depth + max(16, triton.next_power_of_2(d + 2 - depth))

    # Each component is the larger one of two values of the window, the last two are ones.
    pairs = list(itertools.combinations(range(n), 2)) if chain.pairs else [(f, f) for f in range(n)]
    n_values = chain.window**2 * channels
    sources = [(at + f, at + g) for at in range(0, n_values, channels) for f, g in pairs]
    sources += [(channels - 1, channels - 1)] * 2
    selections = np.zeros((2, n_values, filled))
    for component, (first, second) in enumerate(sources):
        selections[0, first, component] = selections[1, second, component] = 1

    words = chain.words.astype(np.float64)
    n_words = len(words)
    n_filled = -(-n_words // WORDS) * WORDS
    table = np.zeros((n_filled, filled))
    table[:n_words, :d] = words
    rounded = table.astype(np.float16)
    lost = table - rounded
    half = np.square(table).sum(axis=1) / 2
    longest = float(np.sqrt(2 * half.max()))
    # Positive scores are ordered as their bits are. Descriptors are not negative.
    shift = longest**2 / 2 + (0 if words.min() >= 0 else longest) + 1e-2
    near = _with_bias(rounded, d, (table * lost).sum(axis=1) - half + shift, n_words)
    exact = _with_bias(rounded, d, -half, n_words)

    def there(array: NDArray[Any], dtype: Any = np.float16) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array, dtype=dtype), device=device)

    def tiles(array: NDArray[Any], size: int) -> tuple[Any, Any]:
        first, rest = there(array[:, :depth]), there(array[:, depth:])
        return _descriptor(first, size), _descriptor(rest, size)

    return Prepared(
        filters=there(chain.filters.reshape(n, -1).T, np.float32),
        selections=(
            *(there(selection[:, :depth]) for selection in selections),
            *(there(selection[:, depth:]) for selection in selections),
        ),
        words=tiles(near, WORDS),
        all_words=(*tiles(exact, SETTLE_WORDS), *tiles(lost, SETTLE_WORDS)),
        n_filled=n_filled,
        shapes={
            "K": depth,
            "K_REST": filled - depth,
            "WINDOW": chain.window,
            "CHANNELS": channels,
        },
        bounds={
            "flat_word": int(half[:n_words].argmin()),
            "shift": float(shift),
            "longest": longest,
            "lost_of_word": float(np.sqrt(np.square(lost).sum(axis=1).max())),
            "rounding": ROUNDING * max(1.0, longest**2),
            "uses": float(n - 1 if chain.pairs else 1),
        },
    )


def _descriptor(part: Any, size: int) -> Any:
    return TensorDescriptor.from_tensor(part, [size, part.shape[1]])


def _with_bias(words: NDArray[Any], d: int, bias: NDArray[Any], n_words: int) -> NDArray[Any]:
    """Two more components, to be multiplied by one: a bias in float16, and what that has lost."""
    words = words.copy()
    words[:n_words, d] = bias[:n_words]
    words[:n_words, d + 1] = bias[:n_words] - words[:n_words, d]
    words[n_words:, d] = NEVER
    return words


def pooled_maps(pixels: Any, flat: Any, prepared: Prepared, chain: Chain) -> Any:
    """2x2-pooled maps (n, rows, columns, channels)."""
    n_images, height, width = pixels.shape
    size = chain.filters.shape[1]
    rows, columns = (side + chain.window - 1 for side in chain.grid((height, width)))
    channels = prepared.shapes["CHANNELS"]
    maps = torch.empty((n_images, rows, columns, channels), dtype=torch.float32, device=pixels.device)
    kernels.soft_convolution_pooled[(triton.cdiv(rows * columns, PLACES), n_images)](
        pixels, prepared.filters, flat, maps, height, width, rows, columns,
        N=len(chain.filters), SIZE=size, SAME=chain.padding == "same",
        LOG_CHANNELS=channels.bit_length() - 1, RECTIFY=chain.rectify, PAIRS=chain.pairs,
        EQUAL=EQUAL, BLOCK=PLACES, num_warps=PLACES // 32,
    )  # fmt: skip
    return maps


def mark_words(maps: Any, prepared: Prepared, chain: Chain, cells: Any, table: Any, exact: bool) -> Any:
    """Mark the words of all descriptors in `table` (n, n_cells * n_words); how many were doubtful.

    cells : int32 (n_levels, n_places), the cell of each place
    """
    n_images, rows, columns, _ = maps.shape
    n_places = cells.shape[1]
    count = torch.zeros(1, dtype=torch.int32, device=maps.device)
    doubtful = torch.empty(n_images * n_places if exact else 1, dtype=torch.int32, device=maps.device)
    sizes = (rows, columns, len(chain.words), prepared.n_filled, table.shape[1])
    kernels.assign[(triton.cdiv(n_places, BLOCK), n_images)](
        maps, *prepared.selections, *prepared.words, cells, table, doubtful, count,
        *sizes, **prepared.bounds, **prepared.shapes, LEVELS=len(cells), EXACT=exact,
        BLOCK=BLOCK, WORDS=WORDS, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    if exact:
        kernels.settle[(min(264, triton.cdiv(n_images * n_places, SETTLE)),)](
            maps, *prepared.selections, *prepared.all_words, cells, table, doubtful, count,
            *sizes, **prepared.shapes, LEVELS=len(cells),
            BLOCK=SETTLE, WORDS=SETTLE_WORDS, num_warps=4, num_stages=2,
        )  # fmt: skip
    return count


def cells_of(chain: Chain, shape: tuple[int, int], full_shape: tuple[int, int], device: Any) -> Any:
    """The cell of each place on each level, -1 where there is none."""
    cells, start = [], 0
    for rows, columns in partition_levels(chain.partition, shape, full_shape):
        level = np.full(shape, -1, dtype=np.int32)
        for number, ((top, bottom), (left, right)) in enumerate(itertools.product(rows, columns)):
            level[top:bottom, left:right] = start + number
        cells.append(level.ravel())
        start += len(rows) * len(columns)
    return torch.as_tensor(np.stack(cells), device=device)


def pooled_codes(
    pixels: Any,
    filters: Any,
    prepared: Prepared,
    cells: Any,
    chain: Chain,
    table: Any,
    exact: bool = True,
) -> Any:
    """All steps at one scale, into `table`; returns how many descriptors were compared again."""
    pixels = pixels.contiguous()
    flat = plain.flat_of(plain.prepare(pixels, chain, filters.dtype) if chain.floor else pixels,
                         filters, chain, pixels.shape[1])  # fmt: skip
    maps = pooled_maps(pixels, flat, prepared, chain)
    return mark_words(maps, prepared, chain, cells, table, exact)


def llc_weights(points: Any, words: Any, found: Any, chain: Chain) -> Any:
    """`plain.llc_weights`, for numbers of neighbours that fit into registers; no gradients."""
    n, k = found.shape
    if k > 6 or not n:
        return plain.llc_weights(points, words, found, chain)
    weights = torch.empty((n, k), dtype=torch.float32, device=points.device)
    kernels.llc_weights[(triton.cdiv(n, 16),)](
        points, words, found, weights, n, points.shape[1],
        NEIGHBORS=k, BLOCK=16, CHUNK=32, num_warps=4,
    )  # fmt: skip
    return weights
