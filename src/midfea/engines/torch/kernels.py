"""Triton kernels for the paper's chain. `fused` prepares what they read and says what they promise.

`soft_convolution_pooled` goes from pixels to 2x2-pooled maps, `assign` and `settle` from these to the
cells' words: responses, descriptors and scores live in registers and shared memory only.
"""
# ruff: noqa: RUF005, SIM108 (Triton's compiler joins tuples, and does not unpack them)
# mypy: disable-error-code="assignment, misc, var-annotated"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _pixel(at, side, SAME: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where padding="same" finds the pixel beyond a border; otherwise one that exists."""
    if SAME:
        at = tl.where(at < 0, -1 - at, at)
        return tl.where(at >= side, 2 * side - 1 - at, at)
    return tl.minimum(at, side - 1)


# One compilation for images of all sizes: Triton would make others where a size is a multiple of 16.
_SIZES = ("height", "width", "rows", "columns", "n_words", "n_filled", "n_codes", "flat_word")


@triton.jit(do_not_specialize=_SIZES[:4])
def soft_convolution_pooled(  # type: ignore[no-untyped-def]
    pixels, filters, flat, maps, height, width, rows, columns,
    N: tl.constexpr, SIZE: tl.constexpr, SAME: tl.constexpr, LOG_CHANNELS: tl.constexpr,
    RECTIFY: tl.constexpr, PAIRS: tl.constexpr, EQUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Maps of one image (grid axis 1), BLOCK places of the pooled grid (axis 0).

    All channels of a place together: the maps, zeros, and last the squared length of what the place
    adds to a descriptor.

    The four responses of a place are computed at once, so that each filter value is read once. A
    response has exactly the stages' rounding: none, for 8-bit pixels. Responses beyond the border of an
    odd size count as zero, which leaves a maximum of maps as it is.
    """
    image = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < rows * columns
    place = tl.minimum(place, rows * columns - 1)
    CHANNELS: tl.constexpr = 1 << LOG_CHANNELS
    margin: tl.constexpr = (SIZE - 1) // 2 if SAME else 0
    lost: tl.constexpr = 0 if SAME else SIZE - 1
    y, x = 2 * (place // columns), 2 * (place % columns)
    start = pixels + image * height * width
    least = tl.load(flat + image)
    zero = tl.zeros((BLOCK,), tl.float32)

    responses = ()
    for _ in tl.static_range(4 * N):
        responses = responses + (zero,)
    for i in range(SIZE):
        upper = start + _pixel(y - margin + i, height, SAME) * width
        lower = start + _pixel(y - margin + i + 1, height, SAME) * width
        at = _pixel(x - margin, width, SAME)
        upper_left, lower_left = tl.load(upper + at).to(tl.float32), tl.load(lower + at).to(tl.float32)
        for j in tl.static_range(SIZE):
            at = _pixel(x - margin + j + 1, width, SAME)
            upper_right = tl.load(upper + at).to(tl.float32)
            lower_right = tl.load(lower + at).to(tl.float32)
            corners = (upper_left, upper_right, lower_left, lower_right)
            weights = ()
            for f in tl.static_range(N):
                weights = weights + (tl.load(filters + (i * SIZE + j) * N + f),)
            added = ()
            for corner in tl.static_range(4):
                for f in tl.static_range(N):
                    before = responses[corner * N + f]
                    added = added + (tl.fma(corners[corner], zero + weights[f], before),)
            responses = added
            upper_left, lower_left = upper_right, lower_right

    pooled = ()
    for corner in tl.static_range(4):
        square = tl.zeros((BLOCK,), tl.float64)
        for f in tl.static_range(N):
            response = responses[corner * N + f].to(tl.float64)
            square += response * response
        scale = tl.where(square > least, tl.rsqrt(square.to(tl.float32)), 0.0)
        total = zero
        units = ()
        for f in tl.static_range(N):
            response = responses[corner * N + f]
            if RECTIFY:
                response = tl.abs(response)
            units = units + (response * scale,)
            total += units[f]
        mean = total / N
        square = zero
        above = ()
        for f in tl.static_range(N):
            above = above + (tl.maximum(units[f] - mean, 0.0),)
            square += above[f] * above[f]
        real = (x + corner % 2 < width - lost) & (y + corner // 2 < height - lost)
        scale = tl.where(real & (square > EQUAL * EQUAL), tl.rsqrt(square), 0.0)
        largest = ()
        for f in tl.static_range(N):
            value = above[f] * scale
            if corner > 0:
                value = tl.maximum(value, pooled[f])
            largest = largest + (value,)
        pooled = largest

    square = zero
    for f in tl.static_range(N):
        if PAIRS:
            for g in tl.static_range(f + 1, N):
                larger = tl.maximum(pooled[f], pooled[g])
                square += larger * larger
        else:
            square += pooled[f] * pooled[f]
    for _ in tl.static_range(CHANNELS - 1 - N):
        pooled = pooled + (zero,)
    pooled = pooled + (square,)
    # All channels of a place into one row, to be written at once: halves laid side by side, until done.
    for step in tl.static_range(1, LOG_CHANNELS + 1):
        joined = ()
        for c in tl.static_range(CHANNELS >> step):
            joined = joined + (tl.join(pooled[c], pooled[c + (CHANNELS >> step)]),)
        pooled = joined
    target = (
        maps + (image * rows * columns + place)[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    )
    tl.store(target, pooled[0].reshape(BLOCK, CHANNELS), mask=inside[:, None])


@triton.jit
def _scale(  # type: ignore[no-untyped-def]
    maps, base, columns, WINDOW: tl.constexpr, CHANNELS: tl.constexpr
):
    """One over the length of descriptors, zero for flat ones."""
    square = tl.load(maps + base * CHANNELS + CHANNELS - 1)
    for i in tl.static_range(WINDOW):
        for j in tl.static_range(WINDOW):
            if i + j > 0:
                square += tl.load(maps + (base + i * columns + j) * CHANNELS + CHANNELS - 1)
    return tl.where(square > 0, tl.rsqrt(square), 0.0)


@triton.jit
def _values(  # type: ignore[no-untyped-def]
    maps, base, columns, scale, i, WINDOW: tl.constexpr, CHANNELS: tl.constexpr
):
    """Row i of the windows: all channels, scaled; in the last one of the first place a one (bias)."""
    channel = tl.arange(0, WINDOW * CHANNELS)
    found = tl.load(maps + (base + i * columns)[:, None] * CHANNELS + channel[None, :]) * scale[:, None]
    found = tl.where((channel % CHANNELS == CHANNELS - 1)[None, :], 0.0, found)
    if i == 0:
        found = tl.where((channel == CHANNELS - 1)[None, :], 1.0, found)
    return found


@triton.jit
def _selection(table, i, K: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(table + (i * ROWS + tl.arange(0, ROWS))[:, None] * K + tl.arange(0, K)[None, :])


@triton.jit
def _mark(  # type: ignore[no-untyped-def]
    out, cells, image, place, word, sure, n_places, n_words, n_codes, LEVELS: tl.constexpr
):
    """The cell maximum of hard codes: one, at the word, in the cell of each level."""
    for level in tl.static_range(LEVELS):
        cell = tl.load(cells + level * n_places + place, mask=sure, other=-1)
        at = image * n_codes + cell * n_words + word
        tl.store(out + at, 1.0, mask=sure & (cell >= 0))


@triton.jit
def _top_two(a, a2, b, b2):  # type: ignore[no-untyped-def]
    return tl.maximum(a, b), tl.maximum(tl.minimum(a, b), tl.maximum(a2, b2))


@triton.jit(do_not_specialize=_SIZES[2:])
def assign(  # type: ignore[no-untyped-def]
    maps, first, second, first_rest, second_rest, words, rest, cells, out, doubtful, n_doubtful,
    rows, columns, n_words, n_filled, n_codes, flat_word, shift, longest, lost_of_word, rounding, uses,
    K: tl.constexpr, K_REST: tl.constexpr, WINDOW: tl.constexpr, CHANNELS: tl.constexpr,
    LEVELS: tl.constexpr, EXACT: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Words of BLOCK descriptors (grid axis 0) of one image (axis 1), marked in the cells.

    A component is the larger one of two values of the window. Products with matrices of zeros and ones
    select them: exact, and they leave the descriptors in the registers from which tensor cores take
    their left factor. Rounding keeps the order, so the values may be rounded to float16 before.

    Scores in float16 with float32 sums. Their last bits are given up for the number of the word in its
    tile, so that one maximum finds both. With EXACT, descriptors whose second best score is too near
    are not marked but listed in `doubtful`, for `settle`.
    """
    image = tl.program_id(1).to(tl.int64)
    n_columns = columns - WINDOW + 1
    n_places = (rows - WINDOW + 1) * n_columns
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n_places
    place = tl.minimum(place, n_places - 1)
    maps += image * rows * columns * CHANNELS
    base = place // n_columns * columns + place % n_columns
    scale = _scale(maps, base, columns, WINDOW, CHANNELS)

    ROWS: tl.constexpr = WINDOW * CHANNELS
    a = tl.zeros((BLOCK, K), tl.float16)
    a_rest = tl.zeros((BLOCK, K_REST), tl.float16)
    b = tl.zeros((BLOCK, K), tl.float16)
    b_rest = tl.zeros((BLOCK, K_REST), tl.float16)
    lost = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(WINDOW):
        values = _values(maps, base, columns, scale, i, WINDOW, CHANNELS)
        rounded = values.to(tl.float16)
        off = values - rounded.to(tl.float32)
        lost += tl.sum(off * off, 1)
        a = tl.dot(rounded, _selection(first, i, K, ROWS), a, out_dtype=tl.float16)
        b = tl.dot(rounded, _selection(second, i, K, ROWS), b, out_dtype=tl.float16)
        a_rest = tl.dot(rounded, _selection(first_rest, i, K_REST, ROWS), a_rest, out_dtype=tl.float16)
        b_rest = tl.dot(rounded, _selection(second_rest, i, K_REST, ROWS), b_rest, out_dtype=tl.float16)
    a = tl.maximum(a, b)
    a_rest = tl.maximum(a_rest, b_rest)

    best = tl.zeros((BLOCK,), tl.int32)
    next_best = tl.zeros((BLOCK,), tl.int32)
    tile = tl.zeros((BLOCK,), tl.int32)
    column = WORDS - 1 - tl.arange(0, WORDS)  # of equal scores the first word has the larger number
    for start in range(0, n_filled, WORDS):
        scores = tl.dot(a_rest, rest.load([start, 0]).T)
        scores = tl.dot(a, words.load([start, 0]).T, scores)
        packed = (scores.to(tl.int32, bitcast=True) & -WORDS) | column[None, :]
        if EXACT:
            top, next_top = tl.reduce((packed, tl.zeros((BLOCK, WORDS), tl.int32)), 1, _top_two)
            next_best = tl.maximum(tl.minimum(best, top), tl.maximum(next_best, next_top))
        else:
            top = tl.max(packed, 1)
        tile = tl.where(top > best, start, tile)
        best = tl.maximum(best, top)

    word = tile + WORDS - 1 - (best & (WORDS - 1))
    word = tl.where(scale == 0, flat_word, word)
    if EXACT:
        lost = tl.sqrt(lost * uses)  # each value is selected in `uses` components at most
        score = (best & -WORDS).to(tl.float32, bitcast=True)
        gap = score - (next_best & -WORDS).to(tl.float32, bitcast=True)
        at_most = lost * longest + (1 + longest + lost) * lost_of_word + rounding  # error of the score
        distance = tl.sqrt(tl.maximum(1.000001 - 2 * (score - shift - at_most), 0.0))
        margin = 2 * (distance * (lost + lost_of_word) + lost * lost_of_word + rounding)
        sure = (gap > margin) | (scale == 0)
        listed = inside & ~sure
        slot = tl.atomic_add(n_doubtful + tl.zeros((BLOCK,), tl.int32), 1, mask=listed, sem="relaxed")
        tl.store(doubtful + slot, (image * n_places + place).to(tl.int32), mask=listed)
        inside = inside & sure
    _mark(out, cells, image, place, word, inside, n_places, n_words, n_codes, LEVELS)


@triton.jit(do_not_specialize=_SIZES[2:7])
def settle(  # type: ignore[no-untyped-def]
    maps, first, second, first_rest, second_rest, words, rest, words_low, rest_low, cells, out,
    doubtful, n_doubtful, rows, columns, n_words, n_filled, n_codes,
    K: tl.constexpr, K_REST: tl.constexpr, WINDOW: tl.constexpr, CHANNELS: tl.constexpr,
    LEVELS: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Words of the doubtful descriptors.

    Scores as good as float32's, from float16 numbers and what was lost when they were rounded, in three
    products.
    """
    n_columns = columns - WINDOW + 1
    n_places = (rows - WINDOW + 1) * n_columns
    ROWS: tl.constexpr = WINDOW * CHANNELS
    n = tl.load(n_doubtful)
    for begin in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        number = begin + tl.arange(0, BLOCK)
        inside = number < n
        number = tl.load(doubtful + number, mask=inside, other=0)
        image = (number // n_places).to(tl.int64)
        place = number % n_places
        base = image * rows * columns + place // n_columns * columns + place % n_columns
        scale = _scale(maps, base, columns, WINDOW, CHANNELS)
        a = tl.zeros((BLOCK, K), tl.float32)
        a_rest = tl.zeros((BLOCK, K_REST), tl.float32)
        b = tl.zeros((BLOCK, K), tl.float32)
        b_rest = tl.zeros((BLOCK, K_REST), tl.float32)
        for i in tl.static_range(WINDOW):
            values = _values(maps, base, columns, scale, i, WINDOW, CHANNELS)
            high = values.to(tl.float16)
            low = (values - high.to(tl.float32)).to(tl.float16)
            select, select_rest = _selection(first, i, K, ROWS), _selection(first_rest, i, K_REST, ROWS)
            a = tl.dot(low, select, tl.dot(high, select, a))
            a_rest = tl.dot(low, select_rest, tl.dot(high, select_rest, a_rest))
            select, select_rest = (
                _selection(second, i, K, ROWS),
                _selection(second_rest, i, K_REST, ROWS),
            )
            b = tl.dot(low, select, tl.dot(high, select, b))
            b_rest = tl.dot(low, select_rest, tl.dot(high, select_rest, b_rest))
        a = tl.maximum(a, b)
        a_rest = tl.maximum(a_rest, b_rest)
        high = a.to(tl.float16)
        low = (a - high.to(tl.float32)).to(tl.float16)
        high_rest = a_rest.to(tl.float16)
        low_rest = (a_rest - high_rest.to(tl.float32)).to(tl.float16)
        best = tl.full((BLOCK,), float("-inf"), tl.float32)
        found = tl.zeros((BLOCK,), tl.int32)
        for start in range(0, n_filled, WORDS):
            c, c_rest = words.load([start, 0]).T, rest.load([start, 0]).T
            c_low, c_rest_low = words_low.load([start, 0]).T, rest_low.load([start, 0]).T
            small = tl.dot(low_rest, c_rest)
            small = tl.dot(high_rest, c_rest_low, small)
            small = tl.dot(low, c, small)
            small = tl.dot(high, c_low, small)
            scores = tl.dot(high_rest, c_rest)
            scores = tl.dot(high, c, scores) + small
            top, at = tl.max(scores, 1, return_indices=True)
            found = tl.where(top > best, start + at, found)
            best = tl.maximum(best, top)
        _mark(out, cells, image, place, found, inside, n_places, n_words, n_codes, LEVELS)


@triton.jit(do_not_specialize=("n_points",))
def llc_weights(  # type: ignore[no-untyped-def]
    points, words, found, weights, n_points, D,
    NEIGHBORS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """`plain.llc_weights` of BLOCK points, in float64, without the differences ever being stored."""
    point = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = point < n_points
    names = ()
    gram = ()  # row by row, up to the diagonal
    for a in tl.static_range(NEIGHBORS):
        names = names + (tl.load(found + point * NEIGHBORS + a, mask=inside, other=0),)
        for _ in tl.static_range(a + 1):
            gram = gram + (tl.zeros((BLOCK, CHUNK), tl.float64),)
    for start in range(0, D, CHUNK):
        at = start + tl.arange(0, CHUNK)[None, :]
        real = inside[:, None] & (at < D)
        x = tl.load(points + point[:, None] * D + at, mask=real, other=0.0).to(tl.float64)
        near = ()
        for a in tl.static_range(NEIGHBORS):
            word = tl.load(words + names[a][:, None] * D + at, mask=real, other=0.0)
            near = near + (word.to(tl.float64) - x,)
        added = ()
        for a in tl.static_range(NEIGHBORS):
            for b in tl.static_range(a + 1):
                added = added + (gram[a * (a + 1) // 2 + b] + near[a] * near[b],)
        gram = added
    sums = ()
    trace = tl.zeros((BLOCK,), tl.float64)
    for a in tl.static_range(NEIGHBORS):
        for b in tl.static_range(a + 1):
            sums = sums + (tl.sum(gram[a * (a + 1) // 2 + b], 1),)
        trace += sums[a * (a + 1) // 2 + a]
    ridge = 1e-4 * trace + 1e-12
    lower = ()
    forward = ()  # L^-1 1
    for a in tl.static_range(NEIGHBORS):
        for b in tl.static_range(a + 1):
            value = sums[a * (a + 1) // 2 + b]
            for c in tl.static_range(b):
                value -= lower[a * (a + 1) // 2 + c] * lower[b * (b + 1) // 2 + c]
            if a == b:
                value = tl.sqrt(value + ridge)
            else:
                value = value / lower[b * (b + 1) // 2 + b]
            lower = lower + (value,)
        value = tl.full((BLOCK,), 1.0, tl.float64)
        for c in tl.static_range(a):
            value -= lower[a * (a + 1) // 2 + c] * forward[c]
        forward = forward + (value / lower[a * (a + 1) // 2 + a],)
    backward = ()  # L^-T of it, the last one first
    total = tl.zeros((BLOCK,), tl.float64)
    for a in tl.static_range(NEIGHBORS - 1, -1, -1):
        value = forward[a]
        for c in tl.static_range(a + 1, NEIGHBORS):
            value -= lower[c * (c + 1) // 2 + a] * backward[NEIGHBORS - 1 - c]
        backward = backward + (value / lower[a * (a + 1) // 2 + a],)
        total += backward[NEIGHBORS - 1 - a]
    for a in tl.static_range(NEIGHBORS):
        weight = (backward[NEIGHBORS - 1 - a] / total).to(tl.float32)
        tl.store(weights + point * NEIGHBORS + a, weight, mask=inside)
