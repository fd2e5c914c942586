"""Compiled loops of the cpu engine. Each computes what the stage named in its docstring does.

All of them release the interpreter, so that threads work on several images at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfea.engines.cpu.tiles import FILTERS, LANES, TILE, convolution_tile, maxima
from midfea.stages.low_level import EQUAL

_EQUAL = np.float32(EQUAL)
# Sums may be reordered, so that they vectorise: responses of 8-bit images are exact in any order
# (`filters.GRID`), the rest agrees to rounding. NaN and infinity are refused before they get here.
FAST = {"contract", "arcp", "nsz", "reassoc"}


class Responses(NamedTuple):
    """What the filters answer, and where that counts as flat."""

    values: NDArray[np.float32]  # (height, n_filters or more, width or more)
    squares: NDArray[np.float64]  # (height, width or more): squared lengths, zero beyond the width
    flat: float  # squared lengths up to this one count as flat
    n_filters: int
    width: int


@njit(cache=True, nogil=True)
def soft_convolution_pooled(image, filters, same, rectify, least, floor):  # type: ignore[no-untyped-def]
    """`soft_convolution` and the 2x2 part of `max_pool_3d`: maps (n_filters, height, width).

    `same`: maps as large as the image, with mirrored borders. `least` is the length that counts as flat
    in any case, `floor` relative to the root mean square (`flat_below`).
    """
    return pooled_maps(respond(image, filters, same, least, floor), rectify)


@njit(cache=True, nogil=True, fastmath=FAST)
def respond(image, filters, same, least, floor):  # type: ignore[no-untyped-def]
    """`convolve` and `flat_below`, for `pooled_maps`. For 8-bit images free of rounding."""
    responses, width = convolution(image, filters, same)
    height = len(responses)
    filled = responses.shape[2]
    squares = np.zeros((height, filled), dtype=np.float64)
    total = 0.0
    for y in range(height):
        square = squares[y]
        for f in range(len(filters)):
            row = responses[y, f]
            for x in range(filled):
                square[x] += np.float64(row[x]) * np.float64(row[x])
        for x in range(width):
            total += square[x]
        square[width:] = 0
    flat = max(least * least, floor * floor * (total / (height * width)))
    return Responses(responses, squares, flat, len(filters), width)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def pooled_maps(responses, rectify):  # type: ignore[no-untyped-def]
    """The rest of `soft_convolution`, and the 2x2 part of `max_pool_3d`.

    Rows are the unit of work, filled up to whole vectors with columns that count as flat.
    """
    n, width, flat = responses.n_filters, responses.width, responses.flat
    height, filled = responses.squares.shape
    pooled = np.empty((n, (height + 1) // 2, (width + 1) // 2), dtype=np.float32)
    scale = np.empty(filled, dtype=np.float32)
    mean = np.empty(filled, dtype=np.float32)
    maps = np.empty((n, filled), dtype=np.float32)
    upper = np.empty((n, filled), dtype=np.float32)
    one, zero, share = np.float32(1), np.float32(0), np.float32(1) / np.float32(n)
    for y in range(height):
        square = responses.squares[y]
        for x in range(filled):
            scale[x] = np.float32(1 / np.sqrt(square[x])) if square[x] > flat else zero
        mean[:] = zero
        for f in range(n):
            row, target = responses.values[y, f], maps[f]
            for x in range(filled):
                value = (abs(row[x]) if rectify else row[x]) * scale[x]
                target[x] = value
                mean[x] += value
        scale[:] = zero
        for f in range(n):
            row = maps[f]
            for x in range(filled):
                value = max(row[x] - mean[x] * share, zero)
                row[x] = value
                scale[x] += value * value
        for x in range(filled):
            length = np.sqrt(scale[x])
            scale[x] = one / length if length > _EQUAL else zero
        for f in range(n):
            row, above = maps[f], upper[f]
            if y % 2 == 0:
                for x in range(filled):
                    above[x] = row[x] * scale[x]
            else:
                for x in range(filled):
                    above[x] = max(above[x], row[x] * scale[x])
            if y % 2 == 1 or y == height - 1:
                target = pooled[f, y // 2]
                for x in range(len(target)):
                    target[x] = max(above[2 * x], above[2 * x + 1])
    return pooled


@njit(cache=True, nogil=True)
def convolution(image, filters, same):  # type: ignore[no-untyped-def]
    """Responses (height, n_filters or more, width or more): rows of whole tiles, for their speed.

    Also the width that counts.
    """
    n, size_y, size_x = filters.shape
    height = image.shape[0] if same else image.shape[0] - size_y + 1
    width = image.shape[1] if same else image.shape[1] - size_x + 1
    filled = -(-width // TILE) * TILE
    pixels = bordered(image, filters, same, filled)
    stride = pixels.shape[1]
    n_taps = size_y * size_x
    taps = np.empty(n_taps, dtype=np.int64)
    for i in range(size_y):
        for j in range(size_x):
            taps[i * size_x + j] = i * stride + j
    n_filled = max(n, FILTERS)
    weights = np.zeros((n_filled, n_taps), dtype=np.float32)
    weights[:n] = filters.reshape(n, n_taps)
    responses = np.empty((height, n_filled, filled), dtype=np.float32)
    for y in range(height):
        for x in range(0, filled, TILE):
            for f in range(0, n, FILTERS):
                first = min(f, n_filled - FILTERS)
                convolution_tile(pixels, y * stride + x, taps, weights, first * n_taps, n_taps,
                                 responses, (y * n_filled + first) * filled + x, filled)  # fmt: skip
    return responses, width


@njit(nogil=True)
def bordered(image, filters, same, filled):  # type: ignore[no-untyped-def]
    """The pixels that filters see at `filled` positions of each row: mirrored borders, then zeros."""
    _, size_y, size_x = filters.shape
    rows, columns = image.shape
    top = (size_y - 1) // 2 if same else 0
    left = (size_x - 1) // 2 if same else 0
    height = rows + size_y - 1 if same else rows
    width = columns + size_x - 1 if same else columns
    pixels = np.zeros((height, filled + size_x - 1), dtype=np.float32)
    for y in range(height):
        source, target = image[_mirrored(y - top, rows)], pixels[y]
        target[left : left + columns] = source
        for x in range(left):
            target[x] = source[_mirrored(x - left, columns)]
        for x in range(left + columns, width):
            target[x] = source[_mirrored(x - left, columns)]
    return pixels


@njit(nogil=True, inline="always")
def _mirrored(i, n):  # type: ignore[no-untyped-def]
    """Where pixel i lies if 0 .. n-1 are repeated back and forth, the last one twice."""
    while not 0 <= i < n:
        i = -1 - i if i < 0 else 2 * n - 1 - i
    return i


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def assemble(pooled, pairs, window):  # type: ignore[no-untyped-def]
    """Pair maxima of `max_pool_3d`, then `assemble_descriptors`, from maps (n, height, width)."""
    n, height, width = pooled.shape
    n_maps = n * (n - 1) // 2 if pairs else n
    # Maxima are written in whole vectors: what stands beyond the last one of a filter is overwritten by
    # the next filter's, and there is room after the last of all.
    stride = width * n_maps + LANES
    maps = np.empty((height, stride), dtype=np.float32)
    squares = np.empty((height, width), dtype=np.float32)
    values = np.zeros(width * n + LANES, dtype=np.float32)
    for y in range(height):
        for f in range(n):
            for x in range(width):
                values[x * n + f] = pooled[f, y, x]
        if pairs:
            m = y * stride
            for first in range(0, width * n, n):
                for f in range(first, first + n - 1):
                    n_others = first + n - 1 - f
                    for g in range(0, n_others, LANES):
                        maxima(values, f, f + 1 + g, maps, m + g)
                    m += n_others
        else:
            maps[y, : width * n] = values[: width * n]
        for x in range(width):
            total = np.float32(0)
            for m in range(x * n_maps, (x + 1) * n_maps):
                total += maps[y, m] * maps[y, m]
            squares[y, x] = total
    rows, columns = height - window + 1, width - window + 1
    length = window * n_maps  # one row of the window lies together
    descriptors = np.empty((rows, columns, window * length), dtype=np.float32)
    for y in range(rows):
        for x in range(columns):
            total = np.float32(0)
            for i in range(window):
                for j in range(window):
                    total += squares[y + i, x + j]
            scale = np.float32(1) / np.sqrt(total) if total > 0 else np.float32(0)
            for i in range(window):
                source = maps[y + i, x * n_maps : x * n_maps + length]
                target = descriptors[y, x, i * length : (i + 1) * length]
                for m in range(length):
                    target[m] = source[m] * scale
    return descriptors


@njit(cache=True, nogil=True)
def soft_weights(descriptors, codebook, words, sharpness):  # type: ignore[no-untyped-def]
    """Weights of `soft_codes` for words that were found already."""
    n, k = words.shape
    weights = np.empty((n, k), dtype=np.float32)
    near = np.empty((k, descriptors.shape[1]))
    distances = np.empty(k)
    for i in range(n):
        _differences(descriptors, codebook, words, i, near)
        for a in range(k):
            distances[a] = _product(near, a, a)
        total = 0.0
        nearest = distances[0]
        for a in range(k):
            distances[a] = np.exp(sharpness * (nearest - distances[a]))
            total += distances[a]
        for a in range(k):
            weights[i, a] = distances[a] / total
    return weights


@njit(cache=True, nogil=True)
def llc_weights(descriptors, codebook, words, regularization):  # type: ignore[no-untyped-def]
    """Weights of `llc_codes`: a k x k positive definite system for each descriptor (Cholesky).

    The systems are nearly singular: in float32 the fourth digit of the weights would be lost.
    """
    n, k = words.shape
    weights = np.empty((n, k), dtype=np.float32)
    near = np.empty((k, descriptors.shape[1]))
    gram = np.empty((k, k))
    solution = np.empty(k)
    for i in range(n):
        _differences(descriptors, codebook, words, i, near)
        trace = 0.0
        for a in range(k):
            for b in range(a + 1):
                gram[a, b] = _product(near, a, b)
            trace += gram[a, a]
        for a in range(k):
            gram[a, a] += regularization * trace + 1e-12
        for a in range(k):  # gram becomes its lower factor L, solution = L^-1 1
            for b in range(a + 1):
                total = gram[a, b]
                for c in range(b):
                    total -= gram[a, c] * gram[b, c]
                gram[a, b] = np.sqrt(total) if a == b else total / gram[b, b]
            total = 1.0
            for c in range(a):
                total -= gram[a, c] * solution[c]
            solution[a] = total / gram[a, a]
        total = 0.0
        for a in range(k - 1, -1, -1):
            for c in range(a + 1, k):
                solution[a] -= gram[c, a] * solution[c]
            solution[a] /= gram[a, a]
            total += solution[a]
        for a in range(k):
            weights[i, a] = solution[a] / total
    return weights


@njit(nogil=True, inline="always")
def _differences(descriptors, codebook, words, i, near):  # type: ignore[no-untyped-def]
    """From descriptor i to each of its words."""
    for a in range(words.shape[1]):
        word = words[i, a]
        for d in range(descriptors.shape[1]):
            near[a, d] = np.float64(codebook[word, d]) - np.float64(descriptors[i, d])


@njit(nogil=True, fastmath=FAST)
def _product(near, a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for d in range(near.shape[1]):
        total += near[a, d] * near[b, d]
    return total


@njit(cache=True, nogil=True)
def pool_level(words, weights, rows, columns, maximum, cells):  # type: ignore[no-untyped-def]
    """`pool_cells` for one level, into `cells` (n_cells, n_words); weights (h, w, k) or (0, 0, 0)."""
    k = words.shape[2]
    weighted = weights.size > 0
    weight = np.float32(1)
    cell = 0
    for r in range(rows.shape[0]):
        for c in range(columns.shape[0]):
            target = cells[cell]
            cell += 1
            for y in range(rows[r, 0], rows[r, 1]):
                for x in range(columns[c, 0], columns[c, 1]):
                    for a in range(k):
                        if weighted:
                            weight = weights[y, x, a]
                        word = words[y, x, a]
                        target[word] = max(weight, target[word]) if maximum else target[word] + weight


@njit(cache=True, nogil=True)
def add_signed(codes, starts, places, out):  # type: ignore[no-untyped-def]
    """codes @ matrix of signs. Row j's places are 2 x column, one more for -1: no sign is looked at.

    Most codes are zero, and cost nothing.
    """
    sums = np.empty(2 * out.shape[1], dtype=np.float32)
    filled = np.empty(codes.shape[1] + 1, dtype=np.int32)
    for i in range(codes.shape[0]):
        n = 0
        for j in range(codes.shape[1]):
            filled[n] = j
            n += codes[i, j] != 0  # no branch: which ones are zero cannot be foreseen
        sums[:] = 0
        for j in filled[:n]:
            code = codes[i, j]
            for t in range(starts[j], starts[j + 1]):
                sums[places[t]] += code
        for column in range(out.shape[1]):
            out[i, column] = sums[2 * column] - sums[2 * column + 1]
