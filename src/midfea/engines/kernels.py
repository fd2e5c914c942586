"""Compiled loops of the cpu engine. Each computes what the stage named in its docstring does.

All of them release the interpreter, so that threads work on several images at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midfea.stages.low_level import EQUAL

_EQUAL = np.float32(EQUAL)
# Sums may be reordered, so that they vectorise: responses of 8-bit images are exact in any order
# (`filters.GRID`), the rest agrees to rounding. NaN and infinity are refused before they get here.
_FAST = {"contract", "arcp", "nsz", "reassoc"}


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def soft_convolution_pooled(image, filters, rectify, least, floor):  # type: ignore[no-untyped-def]
    """`soft_convolution` and the 2x2 part of `max_pool_3d`: maps (n_filters, height, width).

    Rows are the unit of work, so that the inner loops run along them. `least` is the length that
    counts as flat in any case, `floor` relative to the root mean square (`flat_below`).
    """
    n, size_y, size_x = filters.shape
    height = image.shape[0] - size_y + 1
    width = image.shape[1] - size_x + 1
    maps = np.zeros((height, n, width), dtype=np.float32)
    squares = np.zeros((height, width), dtype=np.float64)
    for y in range(height):
        for f in range(n):
            row = maps[y, f]
            for i in range(size_y):
                source = image[y + i]
                for j in range(size_x):
                    weight = filters[f, i, j]
                    for x in range(width):
                        row[x] += weight * source[x + j]
            if rectify:
                for x in range(width):
                    row[x] = abs(row[x])
            for x in range(width):
                squares[y, x] += np.float64(row[x]) * np.float64(row[x])
    flat = max(least * least, floor * floor * squares.mean())

    pooled = np.zeros((n, (height + 1) // 2, (width + 1) // 2), dtype=np.float32)
    scale = np.empty(width, dtype=np.float32)
    mean = np.empty(width, dtype=np.float32)
    one, zero, share = np.float32(1), np.float32(0), np.float32(1) / np.float32(n)
    for y in range(height):
        mean[:] = zero
        for x in range(width):
            square = squares[y, x]
            scale[x] = np.float32(1 / np.sqrt(square)) if square > flat else zero
        for f in range(n):
            row = maps[y, f]
            for x in range(width):
                row[x] *= scale[x]
                mean[x] += row[x]
        scale[:] = zero
        for f in range(n):
            row = maps[y, f]
            for x in range(width):
                value = row[x] - mean[x] * share
                value = value if value > zero else zero
                row[x] = value
                scale[x] += value * value
        for x in range(width):
            length = np.sqrt(scale[x])
            scale[x] = one / length if length > _EQUAL else zero
        for f in range(n):
            row = maps[y, f]
            target = pooled[f, y // 2]
            for x in range(width):
                value = row[x] * scale[x]
                if value > target[x // 2]:
                    target[x // 2] = value
    return pooled


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def assemble(pooled, pairs, window):  # type: ignore[no-untyped-def]
    """Pair maxima of `max_pool_3d`, then `assemble_descriptors`, from maps (n, height, width)."""
    n, height, width = pooled.shape
    n_maps = n * (n - 1) // 2 if pairs else n
    maps = np.empty((height, width, n_maps), dtype=np.float32)
    squares = np.empty((height, width), dtype=np.float32)
    for y in range(height):
        for x in range(width):
            m = 0
            total = np.float32(0)
            for f in range(n):
                value = pooled[f, y, x]
                if pairs:
                    for g in range(f + 1, n):
                        larger = max(value, pooled[g, y, x])
                        maps[y, x, m] = larger
                        total += larger * larger
                        m += 1
                else:
                    maps[y, x, m] = value
                    total += value * value
                    m += 1
            squares[y, x] = total
    rows, columns = height - window + 1, width - window + 1
    descriptors = np.empty((rows, columns, window * window * n_maps), dtype=np.float32)
    for y in range(rows):
        for x in range(columns):
            total = np.float32(0)
            for i in range(window):
                for j in range(window):
                    total += squares[y + i, x + j]
            scale = np.float32(1) / np.sqrt(total) if total > 0 else np.float32(0)
            m = 0
            for i in range(window):
                for j in range(window):
                    for f in range(n_maps):
                        descriptors[y, x, m] = maps[y + i, x + j, f] * scale
                        m += 1
    return descriptors


@njit(cache=True, nogil=True)
def best_words(scores, half, words):  # type: ignore[no-untyped-def]
    """`nearest_words` from inner products: each row of `words` gets the best columns, best first."""
    k = words.shape[1]
    best = np.empty(k, dtype=np.float32)
    for i in range(scores.shape[0]):
        best[:] = -np.inf
        for j in range(scores.shape[1]):
            score = scores[i, j] - half[j]
            if score > best[k - 1]:
                place = k - 1
                while place > 0 and score > best[place - 1]:
                    best[place] = best[place - 1]
                    words[i, place] = words[i, place - 1]
                    place -= 1
                best[place] = score
                words[i, place] = j


@njit(cache=True, nogil=True)
def soft_weights(descriptors, codebook, words, softness):  # type: ignore[no-untyped-def]
    """Weights of `soft_codes` for words that were found already."""
    n, k = words.shape
    weights = np.empty((n, k), dtype=np.float32)
    distances = np.empty(k)
    for i in range(n):
        for a in range(k):
            total = 0.0
            for d in range(descriptors.shape[1]):
                difference = np.float64(codebook[words[i, a], d]) - np.float64(descriptors[i, d])
                total += difference * difference
            distances[a] = total
        total = 0.0
        nearest = distances[0]
        for a in range(k):
            distances[a] = np.exp(softness * (nearest - distances[a]))
            total += distances[a]
        for a in range(k):
            weights[i, a] = distances[a] / total
    return weights


@njit(cache=True, nogil=True)
def llc_weights(descriptors, codebook, words, regularization):  # type: ignore[no-untyped-def]
    """Weights of `llc_codes`: a k x k positive definite system for each descriptor (Cholesky)."""
    n, k = words.shape
    dim = descriptors.shape[1]
    weights = np.empty((n, k), dtype=np.float32)
    near = np.empty((k, dim))
    gram = np.empty((k, k))
    solution = np.empty(k)
    for i in range(n):
        for a in range(k):
            for d in range(dim):
                near[a, d] = np.float64(codebook[words[i, a], d]) - np.float64(descriptors[i, d])
        trace = 0.0
        for a in range(k):
            for b in range(a + 1):
                total = 0.0
                for d in range(dim):
                    total += near[a, d] * near[b, d]
                gram[a, b] = total
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
                        if not maximum:
                            target[word] += weight
                        elif weight > target[word]:
                            target[word] = weight
