"""How pooled maps change with the filters: the backward pass of soft convolution, compiled.

Automatic differentiation stores a dozen arrays of all responses and spends its time moving them; here
an image's responses are computed anew and stay in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from midfea.engines.cpu.kernels import FAST, bordered, convolution
from midfea.engines.cpu.tiles import dot
from midfea.stages.low_level import EQUAL

_EQUAL = np.float32(EQUAL)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def filters_gradient(image, filters, same, rectify, least, slopes):  # type: ignore[no-untyped-def]
    """The gradient for the filters (n_filters, k, k), given that for the pooled maps.

    slopes : (n_filters, height, width), as `kernels.soft_convolution_pooled` returns maps (floor 0)
    """
    n, size_y, size_x = filters.shape
    responses, width = convolution(image, filters, same)
    height, filled = len(responses), responses.shape[2]
    pixels = bordered(image, filters, same, filled)
    zero, share = np.float32(0), np.float32(1) / np.float32(n)
    # Of two rows: first normalisation, second normalisation, and the inverse lengths before each.
    first = np.empty((2, n, filled), dtype=np.float32)
    second = np.empty((2, n, filled), dtype=np.float32)
    scales = np.empty((2, 2, filled), dtype=np.float32)
    back = np.zeros((2, n, filled), dtype=np.float32)
    along, mean = np.empty(filled, dtype=np.float32), np.empty(filled, dtype=np.float32)
    gradient = np.zeros(filters.shape, dtype=np.float32)
    for top in range(0, height, 2):
        n_rows = min(2, height - top)
        for i in range(n_rows):
            _normalized(responses[top + i], width, rectify, least, first[i], second[i], scales[i])
        if n_rows == 1:
            second[1] = zero
        for f in range(n):
            _to_largest(second[0, f], second[1, f], slopes[f, top // 2], back[0, f], back[1, f])
        for i in range(n_rows):
            along[:] = zero
            for f in range(n):
                row, target = second[i, f], back[i, f]
                for x in range(filled):
                    along[x] += target[x] * row[x]
            # Through the second normalisation and the threshold.
            mean[:] = zero
            for f in range(n):
                row, target = second[i, f], back[i, f]
                for x in range(filled):
                    slope = (target[x] - along[x] * row[x]) * scales[i, 1, x]
                    target[x] = slope if row[x] > zero else zero
                    mean[x] += target[x]
            # Through the mean and the first normalisation.
            along[:] = zero
            for f in range(n):
                row, target = first[i, f], back[i, f]
                for x in range(filled):
                    target[x] -= mean[x] * share
                    along[x] += target[x] * row[x]
            for f in range(n):
                row, target, response = first[i, f], back[i, f], responses[top + i, f]
                for x in range(filled):
                    slope = (target[x] - along[x] * row[x]) * scales[i, 0, x]
                    target[x] = -slope if rectify and response[x] < zero else slope
            stride = pixels.shape[1]
            for f in range(n):
                for y in range(size_y):
                    for x in range(size_x):
                        start = (top + i + y) * stride + x
                        gradient[f, y, x] += dot(back, (i * n + f) * filled, pixels, start, filled)
    return gradient


@njit(nogil=True)
def _to_largest(upper, lower, slopes, above, below):  # type: ignore[no-untyped-def]
    """From the maxima of 2x2 pixels to the pixels that made them; the first one if some tie.

    Columns beyond the width are zero and come last: none of them is taken for the largest.
    """
    zero = np.float32(0)
    for x in range(len(slopes)):
        a, b, c, d = upper[2 * x], upper[2 * x + 1], lower[2 * x], lower[2 * x + 1]
        high = slopes[x] if max(a, b) >= max(c, d) else zero
        low = slopes[x] - high
        above[2 * x] = high if a >= b else zero
        above[2 * x + 1] = zero if a >= b else high
        below[2 * x] = low if c >= d else zero
        below[2 * x + 1] = zero if c >= d else low


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _normalized(responses, width, rectify, least, first, second, scales):  # type: ignore[no-untyped-def]
    """Both normalisations of one row of responses (n_filters, filled)."""
    n, filled = first.shape
    zero, one, share = np.float32(0), np.float32(1), np.float32(1) / np.float32(n)
    before, after = scales[0], scales[1]
    before[:] = zero
    for f in range(n):
        row = responses[f]
        for x in range(filled):
            before[x] += row[x] * row[x]
    for x in range(filled):
        some = before[x] > least * least and x < width
        before[x] = one / np.sqrt(before[x]) if some else zero
    after[:] = zero
    for f in range(n):
        row, target = responses[f], first[f]
        for x in range(filled):
            target[x] = (abs(row[x]) if rectify else row[x]) * before[x]
            after[x] += target[x]
    for f in range(n):
        row, target = first[f], second[f]
        for x in range(filled):
            target[x] = max(row[x] - after[x] * share, zero)
    after[:] = zero
    for f in range(n):
        row = second[f]
        for x in range(filled):
            after[x] += row[x] * row[x]
    for x in range(filled):
        length = np.sqrt(after[x])
        after[x] = one / length if length > _EQUAL else zero
    for f in range(n):
        row = second[f]
        for x in range(filled):
            row[x] *= after[x]
