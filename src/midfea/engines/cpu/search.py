"""The nearest words of descriptors, exactly, for a sixth of the arithmetic.

A score x.c - |c|^2 / 2 is bounded from above by what the leading principal directions of the words see
of x and c, plus the product of the lengths of what they do not see (Cauchy and Schwarz). The bounds of
all words are one thin product of matrices of whole numbers, in registers tile by tile (`tiles`); what
rounding may have taken away is added to them. Only words whose bound reaches the best score found
so far are compared in full, the most promising ones first. Nothing of the size descriptors x words is
stored: a few descriptors are compared at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfea.engines.cpu.tiles import (
    LANES,
    PANEL,
    ROWS,
    TILE,
    dot,
    largest,
    lowest_bit,
    panel_bounds,
    panel_tops,
    product_tile,
    reaches,
)
from midfea.parallel import linear_algebra_threads

BLOCK = 4 * ROWS  # points at a time
NONE, ANY = np.float32(-np.inf), np.float32(-1e30)  # a bound that reaches nothing; one that all reach
ROUNDING = np.float32(4e-6)  # of float32 sums, relative to the squared lengths in them
NEAR = np.float32(1e-6)  # scores no further apart nearly tie; relative to the same
RIVALS = 3  # words that nearly tie with the k-th, at most
LARGEST = 8191  # of the whole numbers
SHORTEST = 1e-12  # of words that are told apart: a shorter one counts as zero
# Descriptors lie around their words: coordinates may be so much larger. Larger ones cost time only.
MARGIN = 1.25


class WordIndex:
    """Words prepared for the search; `nearest` is `stages.nearest_words`."""

    def __init__(self, words: NDArray[Any]) -> None:
        words = np.asarray(words, dtype=np.float32)
        self.order = _neighbours_together(words)
        self.words = np.ascontiguousarray(words[self.order])
        self.half = np.einsum("ij,ij->i", self.words, self.words) / np.float32(2)
        self.exact_half = np.einsum("ij,ij->i", words, words, dtype=np.float64) / 2  # in their own order
        self.shortest = np.argsort(self.exact_half, kind="stable").astype(np.int32)  # nearest to zero
        self.screen = _screen(self.words)

    def nearest(self, points: NDArray[Any], k: int = 1) -> NDArray[np.int32]:
        """Indices of the k nearest words of each row, nearest first; the first ones if some tie."""
        return self.nearest_and_rivals(points, k)[0]

    def nearest_and_rivals(
        self, points: NDArray[Any], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """`nearest`, and words that float32 hardly tells from the k-th, (n, RIVALS), filled with -1."""
        points = np.ascontiguousarray(points, dtype=np.float32)
        if points.shape[1:] != self.words.shape[1:] or not 1 <= k <= len(self.words):
            raise ValueError(f"{k} nearest of {self.words.shape} words for points {points.shape}")
        n = len(points)
        if n < BLOCK:
            points = np.pad(points, ((0, BLOCK - n), (0, 0)))
        found = np.zeros((len(points), k), dtype=np.int32)
        rivals = np.full((len(points), RIVALS), -1, dtype=np.int32)
        _nearest(points, self.words, self.half, self.order, self.shortest, self.screen, found, rivals)
        return found[:n], rivals[:n]


class Screen(NamedTuple):
    """What the bounds need. Numbers seen of a point are counted in `steps[0]`, of a word in [1]."""

    directions: NDArray[np.float32]  # (blocks, dim, TILE)
    panels: NDArray[np.int16]  # (panels, depth / 2, PANEL, 2)
    biases: NDArray[np.int32]  # -|c|^2 / 2
    steps: tuple[np.float32, np.float32]
    largest: tuple[np.float32, np.float32, np.float32]  # |seen|, its rounding, |unseen| of any word


def _neighbours_together(words: NDArray[np.float32]) -> NDArray[np.int32]:
    """An order in which words near each other share a panel: halves along the widest direction."""
    parts, done = [np.arange(len(words), dtype=np.int32)], []
    while parts:
        part = parts.pop()
        if len(part) <= PANEL:
            done.append(part)
            continue
        near = words[part] - words[part].mean(axis=0)
        along = near @ near[np.square(near).sum(axis=1).argmax()]
        for _ in range(5):  # power iteration, near enough
            along = near @ (along @ near)
            along /= np.abs(along).max() or 1
        part = part[np.argsort(along, kind="stable")]
        half = -(-len(part) // 2 // PANEL) * PANEL
        parts += [part[half:], part[:half]]
    return np.concatenate(done)


def _screen(words: NDArray[np.float32]) -> Screen:
    n_words, dim = words.shape
    words = words.astype(np.float64)
    # More directions cost more for each word and leave fewer words to compare in full; measured on
    # presets. The last two are for what is unseen. At most 256: then no sum of products overflows.
    depth = TILE * min(max(1, round(dim / 192 * (n_words / 1000) ** 0.5)), 8)
    n_seen = min(dim, depth - 2)
    # The words stand for the descriptors whose means they are. Turned at random, no coordinate is much
    # larger than the others, and rounding takes less away.
    # More threads gain little for matrices so small, and lose much where another program has the core.
    with linear_algebra_threads(1):
        basis = np.linalg.eigh(words.T @ words)[1][:, ::-1][:, :n_seen]
        basis = basis @ np.linalg.qr(np.random.RandomState(0).normal(size=(n_seen, n_seen)))[0]
    columns = np.zeros((dim, depth))
    columns[:, :n_seen] = basis
    seen = words @ basis
    squares = np.square(words).sum(axis=1)
    unseen = np.sqrt(np.maximum(squares - np.square(seen).sum(axis=1), 0) / 2)  # twice, to be smaller

    coordinate = max(np.abs(seen).max(), unseen.max(), SHORTEST)
    length = max(np.sqrt(squares.max()), SHORTEST)
    steps = np.float32(MARGIN * coordinate / LARGEST), np.float32(length / LARGEST)
    n_panels = -(-n_words // PANEL)
    numbers = np.zeros((n_panels * PANEL, depth))
    numbers[:n_words, :n_seen] = np.rint(seen / steps[1])
    numbers[:n_words, -2:] = np.ceil(unseen / steps[1])[:, None]
    biases = np.full(n_panels * PANEL, -(2.0**30))  # fills the last panel, never found
    biases[:n_words] = np.ceil(-squares / 2 / (float(steps[0]) * float(steps[1])))
    rounding = np.linalg.norm(seen - steps[1] * numbers[:n_words, :n_seen], axis=1).max()
    longest = np.linalg.norm(seen, axis=1).max()
    unseen_longest = 2 * float(steps[1]) * numbers[:, -1].max()
    panels = numbers.reshape(n_panels, PANEL, depth // 2, 2).swapaxes(1, 2)
    return Screen(
        np.ascontiguousarray(columns.reshape(dim, -1, TILE).swapaxes(0, 1), dtype=np.float32),
        np.ascontiguousarray(panels, dtype=np.int16),
        biases.astype(np.int32),
        steps,
        (np.float32(longest), np.float32(rounding), np.float32(unseen_longest)),
    )


@njit(cache=True, nogil=True)
def _nearest(points, words, half, order, shortest, screen, found, rivals):  # type: ignore[no-untyped-def]
    n, dim = points.shape
    n_words, k = len(words), found.shape[1]
    directions, panels, biases = screen.directions, screen.panels, screen.biases
    n_panels, n_blocks, depth = len(panels), len(directions), 2 * panels.shape[1]
    filled = -(-n_panels // PANEL) * PANEL
    seen = np.empty((BLOCK, depth), dtype=np.float32)
    rows = np.empty((BLOCK, depth), dtype=np.int16)
    above = np.empty(BLOCK, dtype=np.float32)
    tops = np.full((BLOCK, filled), NONE, dtype=np.float32)
    bounds = np.empty((BLOCK, PANEL), dtype=np.float32)
    best = np.empty((BLOCK, k), dtype=np.float32)
    names = np.zeros((BLOCK, k), dtype=np.int32)  # words that exist, whatever follows
    n_rivals = np.empty(BLOCK, dtype=np.int64)
    near = np.empty(BLOCK, dtype=np.float32)
    opened = np.empty(BLOCK, dtype=np.int64)
    longest = np.float32(2) * half.max()
    step, per_step = screen.steps[0], np.float32(1) / screen.steps[0]
    longest_seen, lost_of_word, longest_unseen = screen.largest
    units = np.float32(1) / (screen.steps[0] * screen.steps[1])
    start = 0
    while start < n:
        # Descriptors of flat regions are zero, many in a row: they need no search. Unit words all tie
        # there but for rounding, so zeros within a block get the same words at its end.
        if _score(points, start, points, start) == 0:
            found[start] = shortest[:k]
            start += 1
            continue
        first = min(start, n - BLOCK)
        start += BLOCK
        for group in range(0, BLOCK, ROWS):
            for block in range(n_blocks):
                product_tile(
                    points,
                    (first + group) * dim,
                    dim,
                    directions,
                    block * dim * TILE,
                    dim,
                    seen,
                    group * depth + block * TILE,
                    depth,
                )
        for r in range(BLOCK):
            length = _score(points, first + r, points, first + r)
            if not length < np.inf:  # not a point; nothing may be made of it but some word
                seen[r], length = 0, np.float32(0)
            rounding = ROUNDING * (length + longest)
            lost, beyond = _count(seen, r, length + rounding, step, per_step, rows)
            off = lost * (longest_seen + lost_of_word) + np.sqrt(length) * lost_of_word
            near[r] = NEAR * (length + longest)
            above[r] = -near[r] - rounding - off - beyond * longest_unseen
        for panel in range(n_panels):
            for group in range(0, BLOCK, ROWS):
                panel_tops(rows, group, depth, panels, biases, panel, tops, filled)
        best[:] = -np.inf
        n_rivals[:] = 0
        # The most promising words of the best panel. Points take turns: none waits for another's.
        for r in range(BLOCK):
            opened[r] = _first_of(tops, r, _largest(tops, r, filled))
        for r in range(BLOCK):
            tops[r, opened[r]] = NONE
            panel_bounds(rows, r, depth, panels, biases, opened[r], bounds, r * PANEL)
        for r in range(BLOCK):
            for _ in range(min(k, PANEL)):
                i = _first_of(bounds, r, _largest(bounds, r, PANEL))
                bounds[r, i] = NONE
                word = opened[r] * PANEL + i
                if word < n_words:
                    score = _score(points, first + r, words, word) - half[word]
                    _insert(best, names, r, score, order[word], near, rivals, first, n_rivals)
        # Then what else reaches the k-th best score so far, panel by panel, until none does.
        for r in range(BLOCK):
            panel = opened[r]
            while True:
                least = max((best[r, k - 1] + above[r]) * units, ANY)
                mask = reaches(bounds, r * PANEL, least)
                while mask != 0:
                    word = panel * PANEL + lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    if word < n_words:
                        score = _score(points, first + r, words, word) - half[word]
                        _insert(best, names, r, score, order[word], near, rivals, first, n_rivals)
                least = max((best[r, k - 1] + above[r]) * units, ANY)
                top = _largest(tops, r, filled)
                if not top >= least:  # also if a point is not a number
                    break
                panel = _first_of(tops, r, top)
                tops[r, panel] = NONE
                panel_bounds(rows, r, depth, panels, biases, panel, bounds, r * PANEL)
            is_zero = _score(points, first + r, points, first + r) == 0
            for place in range(k):
                found[first + r, place] = shortest[place] if is_zero else names[r, place]
            if is_zero:
                rivals[first + r] = -1


@njit(nogil=True, inline="always")
def _insert(best, names, r, score, name, near, rivals, first, n_rivals):  # type: ignore[no-untyped-def]
    """Put a word among the k best so far: the better score first, then the smaller name.

    The word that is not, or no longer, among them is a rival if it is nearly as good as the last.
    """
    last = best.shape[1] - 1
    lost, loser = best[r, last], names[r, last]
    if score < lost or (score == lost and name > loser):
        lost, loser = score, name
    else:
        place = last
        while place > 0 and (
            score > best[r, place - 1] or (score == best[r, place - 1] and name < names[r, place - 1])
        ):
            best[r, place] = best[r, place - 1]
            names[r, place] = names[r, place - 1]
            place -= 1
        best[r, place] = score
        names[r, place] = name
    if best[r, last] - lost <= near[r] and n_rivals[r] < RIVALS:  # not if infinities are subtracted
        rivals[first + r, n_rivals[r]] = loser
        n_rivals[r] += 1


@njit(nogil=True, fastmath={"contract", "arcp", "nsz", "reassoc", "nnan"})
def _count(seen, r, unseen, step, per_step, rows):  # type: ignore[no-untyped-def]
    """Write a point as whole numbers; return the lengths of what rounding and the limit took away."""
    zero, top = np.float32(0), np.float32(LARGEST)
    lost = zero
    depth = seen.shape[1]
    for direction in range(depth):
        value = seen[r, direction]
        number = value * per_step
        number = top if number > top else number
        number = np.rint(-top if number < -top else number)
        rows[r, direction] = np.int32(number)
        unseen -= value * value
        value -= number * step
        lost += value * value
    unseen = np.sqrt(max(unseen, zero) * np.float32(0.5))
    number = min(np.ceil(unseen * per_step), top)
    rows[r, depth - 2] = rows[r, depth - 1] = np.int32(number)
    return np.sqrt(lost), max(unseen - number * step, zero)


@njit(nogil=True, inline="always")
def _largest(numbers, r, n):  # type: ignore[no-untyped-def]
    """Of the first n of row r, whole panels."""
    top = largest(numbers, r * numbers.shape[1])
    for at in range(PANEL, n, PANEL):
        top = max(top, largest(numbers, r * numbers.shape[1] + at))
    return top


@njit(nogil=True, inline="always")
def _first_of(numbers, r, value):  # type: ignore[no-untyped-def]
    """The first place in row r, whole panels, where that value is reached."""
    for at in range(0, numbers.shape[1], PANEL):
        mask = reaches(numbers, r * numbers.shape[1] + at, value)
        if mask != 0:
            return at + lowest_bit(mask)
    return 0


@njit(nogil=True, inline="always")
def _score(a, i, b, j):  # type: ignore[no-untyped-def]
    """Inner product of row i of `a` and row j of `b`."""
    dim = a.shape[1]
    whole = dim - dim % LANES
    total = dot(a, i * dim, b, j * dim, whole) if whole else np.float32(0)
    for d in range(whole, dim):
        total += a[i, d] * b[j, d]
    return total
