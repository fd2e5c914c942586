"""Near ties of words, decided exactly.

Where two words are equally near to a descriptor to what float32 can tell, the order of some additions
would decide which one is taken, and one word more or less can be seen in the answer. The filters'
responses to 8-bit pixels are exact (`filters.GRID`). So these few descriptors are computed again from
them, in float64, and compared once more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midfea.stages.low_level import EQUAL


@njit(cache=True, nogil=True)
def settle(found, rivals, words, half, responses, rectify, pairs, window, columns):  # type: ignore[no-untyped-def]
    """Where words have rivals, put the nearest of both into `found`, of equally near ones the first.

    found, rivals : from `search`, for descriptors in a grid of so many columns
    half : half the squared length of each word
    responses : of the filters (`kernels.Responses`)
    """
    k, n_rivals = found.shape[1], rivals.shape[1]
    pooled = np.empty((window, window, responses.n_filters))
    point = np.empty(words.shape[1])
    names = np.empty(k + n_rivals, dtype=np.int32)
    scores = np.empty(k + n_rivals)
    for at in range(len(found)):
        if rivals[at, 0] < 0:
            continue
        for i in range(window):
            for j in range(window):
                _pool(responses, rectify, at // columns + i, at % columns + j, pooled[i, j])
        _assemble(pooled, pairs, point)
        names[:k], names[k:] = found[at], rivals[at]
        for a in range(len(names)):
            name = names[a]
            if name < 0:
                break
            score = -half[name]
            for d in range(len(point)):
                score += point[d] * words[name, d]
            b = a
            while b > 0 and (score > scores[b - 1] or (score == scores[b - 1] and name < names[b - 1])):
                scores[b], names[b] = scores[b - 1], names[b - 1]
                b -= 1
            scores[b], names[b] = score, name
        found[at] = names[:k]


@njit(nogil=True)
def _pool(responses, rectify, y, x, pooled):  # type: ignore[no-untyped-def]
    """`soft_convolution` at the 2x2 pixels of a place, and their maxima."""
    n = len(pooled)
    values = np.empty(n)
    pooled[:] = 0
    for v in range(2 * y, min(2 * y + 2, len(responses.squares))):
        for u in range(2 * x, min(2 * x + 2, responses.width)):
            square = responses.squares[v, u]
            if not square > responses.flat:
                continue
            for f in range(n):
                value = np.float64(responses.values[v, f, u])
                values[f] = (abs(value) if rectify else value) / np.sqrt(square)
            values = np.maximum(values - values.mean(), 0)
            length = np.sqrt((values * values).sum())
            if length > EQUAL:
                pooled[:] = np.maximum(pooled, values / length)


@njit(nogil=True)
def _assemble(pooled, pairs, point):  # type: ignore[no-untyped-def]
    """The pairs of `max_pool_3d` and `assemble_descriptors`, at one place."""
    _, window, n = pooled.shape
    d = 0
    for i in range(window):
        for j in range(window):
            for f in range(n):
                for g in range(f + 1, n) if pairs else range(f, f + 1):
                    point[d] = max(pooled[i, j, f], pooled[i, j, g])
                    d += 1
    square = (point * point).sum()
    if square > 0:
        point /= np.sqrt(square)
