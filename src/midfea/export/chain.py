"""The engine of exported models: the steps of `midfea.engines.walk` on values of an ONNX graph.

Codes and cells are those of `midfea.stages.coding` and `midfea.stages.pooling`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from midfea.engines import Chain, Projection
from midfea.export.graph import Value
from midfea.export.pixels import Resize, Size, describe, resizing, scaled_size, unit_length
from midfea.stages.pooling import STRIDE, Partition, divisions, tenths

BLOCK_SIZE = 512  # descriptors compared with all words at once
N_RIVALS = 3  # words compared once more in float64, beyond those needed
LLC_REGULARIZATION = 1e-4  # as in `midfea.stages.llc_codes`


class Scaled(NamedTuple):
    """An image, not yet resized, and what is known of a scale when the size of the images is."""

    image: Value
    fits: Value  # whether an image at this scale holds a descriptor
    resize: Resize | None  # None: the image itself
    cells: Value


class Codes(NamedTuple):
    """The codes of a grid of descriptors, (height, width, k) each; k = 1 for VQ."""

    words: Value
    weights: Value


class OnnxChain:
    """A chain for images of one size.

    Only the running model knows whether a scale counts. So `describe` and `encode` are put off until
    `pool` writes them into a branch that runs if it does.
    """

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self._scales: list[tuple[Value, Resize | None, Value]] = []
        full = None
        for factor in sorted(chain.scales, reverse=True):
            scaled = size if factor == 1 else scaled_size(size, float(factor))
            grid = _grid_of(scaled, chain)
            full = full or grid
            fits = size.height.graph.op("Min", *scaled) > chain.min_side - 1
            resize = None if factor == 1 else resizing(size, scaled, chain.rounded)
            self._scales.append((fits, resize, _cell_bounds(chain.partition, grid, full)))

    def scales(self, image: Value) -> list[Scaled]:
        """See `midfea.engines.walk.Steps`; `pool` leaves out those that hold no descriptor."""
        return [Scaled(image, *scale) for scale in self._scales]

    def describe(self, scaled: Scaled) -> Callable[[], Value]:
        """See `midfea.engines.walk.Steps`."""
        image, _, resize, _ = scaled
        return lambda: describe(resize.apply(image) if resize else image, self.chain, np.float64)

    def encode(self, descriptors: Callable[[], Value]) -> Callable[[], Codes]:
        """See `midfea.engines.walk.Steps`."""
        return lambda: _encode(descriptors(), self.chain)

    def pool(self, codes: Callable[[], Codes], scaled: Scaled, table: Value | None) -> Value:
        """See `midfea.engines.walk.Steps`; the table is (n_cells, n_words)."""
        g, chain, larger = scaled.image.graph, self.chain, table

        def pooled() -> Value:
            return _pool(codes(), scaled.cells, chain)

        if larger is None:  # the largest scale always counts
            return pooled()
        join = "Max" if chain.pooling == "max" else "Add"
        return g.choose(scaled.fits, lambda: g.op(join, larger, pooled()), larger)


def _encode(descriptors: Value, chain: Chain) -> Codes:
    """The codes of descriptors (height, width, d), float64.

    Some descriptors at a time: nothing of the size all descriptors x all words is stored.
    """
    g = descriptors.graph
    height, width = descriptors.side(0), descriptors.side(1)
    n = height * width
    n_blocks = (n + (BLOCK_SIZE - 1)) / BLOCK_SIZE
    block_size = (n + (n_blocks - 1)) / n_blocks
    d, k = chain.n_components, chain.n_nearest
    padding = g.join([0, 0, block_size * n_blocks - n, 0], np.int64)  # zeros, to fill the last block
    blocks = g.op("Pad", descriptors.reshape(-1, d), padding).reshape(n_blocks, block_size, d)
    codes = g.scan(lambda block: _encode_block(block, chain), blocks)
    return Codes(*(v.reshape(-1, k).cut([0], [0], n).reshape(height, width, k) for v in codes))


def _encode_block(points: Value, chain: Chain) -> list[Value]:
    g, words = points.graph, _nearest(points, chain)
    if chain.encoding == "vq":
        return [words, g.constant(np.ones(1, dtype=np.float32)).expand(words.side(0), 1)]
    differences = g.constant(chain.words).take(words, 0).to(np.float64) - points.unsqueeze(1)
    weigh = _soft_weights if chain.encoding == "soft" else _llc_weights
    return [words, weigh(differences, chain)]


def _nearest(points: Value, chain: Chain) -> Value:
    """`stages.nearest_words` (n, k): of equal scores the first.

    Runtimes add up inner products in float32 as they like, with errors of some 3e-7, and one word more
    or less can be seen in the probabilities. So the best few scores are computed again in float64, as
    the library decides near ties (`engines.cpu.ties`).
    """
    g, words, k = points.graph, chain.words, chain.n_nearest
    half = np.einsum("ij,ij->i", words, words, dtype=np.float64) / 2
    scores = g.op("Gemm", points.to(np.float32), words, -half.astype(np.float32), transB=1)
    n_candidates = min(k + N_RIVALS, len(words))
    candidates = _top(scores, n_candidates)
    candidates, _ = g.ops(  # in their own order: TopK takes the first of equal ones
        "TopK", candidates, np.array([n_candidates]), kinds=(None, np.int64), axis=1, largest=0
    )
    candidate_words = g.constant(words).take(candidates, 0).to(np.float64)
    products = (candidate_words * points.unsqueeze(1)).reduce("Sum", 2, keep=False)
    best = _top(products - g.constant(half).take(candidates, 0), k)
    return g.op("GatherElements", candidates, best, axis=1)


def _top(scores: Value, k: int) -> Value:
    return scores.graph.ops("TopK", scores, np.array([k]), kinds=(None, np.int64), axis=1)[1]


def _soft_weights(differences: Value, chain: Chain) -> Value:
    distances = differences.reduce("SumSquare", 2, keep=False)
    return distances.graph.op("Softmax", distances * -chain.sharpness, axis=1).to(np.float32)


def _llc_weights(differences: Value, chain: Chain) -> Value:
    """A k x k positive definite system for each descriptor; such need no pivoting (Gauss and Jordan)."""
    g, k = differences.graph, chain.n_neighbors
    # Float64: the systems are nearly singular, in float32 the fourth digit is lost.
    gram = differences @ differences.transpose(0, 2, 1)
    trace = (gram * np.eye(k)).reduce("Sum", 1, 2)
    gram = gram + (trace * LLC_REGULARIZATION + 1e-12) * np.eye(k)
    ones = g.constant(np.ones((1, 1, 1))).expand(gram.side(0), k, 1)
    system = g.join([gram, ones], np.float64, axis=2)
    for i in range(k):
        pivot = system.cut([1], [i], [i + 1])
        pivot = pivot / pivot.cut([2], [i], [i + 1])
        # Row i becomes the pivot: A_i - (A_ii - 1) pivot.
        factors = system.cut([2], [i], [i + 1]) - np.eye(k)[:, i : i + 1]
        system = system - factors * pivot
    weights = system.cut([2], [k], [k + 1])
    return g.op("Squeeze", weights / weights.reduce("Sum", 1), np.array([2])).to(np.float32)


def _pool(codes: Codes, cells: Value, chain: Chain) -> Value:
    """`stages.pool_cells`: (n_cells, n_words), the cells as in `_cell_bounds`."""
    g = cells.graph
    absent = g.constant(np.zeros(len(chain.words), dtype=np.float32))

    def one_cell(bounds: Value) -> list[Value]:
        starts, stops = bounds.cut([0], [0], [2]), bounds.cut([0], [2], [4])
        inside = [values.cut((0, 1), starts, stops).reshape(-1) for values in codes]
        reduction = "max" if chain.pooling == "max" else "add"
        return [g.op("ScatterElements", absent, *inside, axis=0, reduction=reduction)]

    return g.scan(one_cell, cells)[0]


def _grid_of(size: Size, chain: Chain) -> Size:
    """`Chain.grid`."""
    lost = chain.filters.shape[1] - 1 if chain.padding == "valid" else 0
    height, width = ((side + (1 - lost)) / 2 - (chain.window - 1) for side in size)
    return Size(height, width)


def _cell_bounds(partition: Partition, grid: Size, full: Size) -> Value:
    """`stages.partition_levels` as whole numbers (n_cells, 4): top, left, bottom, right.

    grid : of the descriptors; full : the grid on which the cells are laid out
    """
    g = grid.height.graph
    levels = []
    for rows, columns in _full_levels(partition, full):
        top, bottom = ((bound * grid.height / full.height).unsqueeze(1) for bound in rows)
        left, right = ((bound * grid.width / full.width).unsqueeze(0) for bound in columns)
        sides = [top.side(0), left.side(1)]
        edges = [edge.expand(*sides).unsqueeze(2) for edge in (top, left, bottom, right)]
        levels.append(g.join(edges, np.int64, axis=2).reshape(-1, 4))
    return g.join(levels, np.int64)


def _full_levels(partition: Partition, full: Size) -> list[list[list[Value]]]:
    """For each level the starts and stops of the rows, and those of the columns."""
    if isinstance(partition, dict):
        size, step = (round(partition[name] / STRIDE) for name in ("size", "step"))
        return [[_overlapping(side, size, step) for side in full]]
    return [
        [
            [side * bounds / (10 * n) for bounds in tenths(n, reach).T]
            for side, n in zip(full, grid, strict=True)
        ]
        for grid, reach in divisions(partition)
    ]


def _overlapping(length: Value, size: int, step: int) -> list[Value]:
    g = length.graph
    starts = g.arange(0, g.op("Max", length - size, 0) + 1, step)
    return [starts, g.join([starts.cut([0], [0], [-1]) + size, length], np.int64)]


def project(row: Value, projection: Projection) -> Value:
    """`Projection.apply` of the pooled codes (n_codes,) of one image."""
    if projection.mean is not None:
        row = row - projection.mean.astype(np.float32)
    if projection.dense is not None:
        row = row @ projection.dense.astype(np.float32)
    return unit_length(row if projection.sparse is None else _times_sparse(row, projection.sparse))


def _times_sparse(row: Value, matrix: sp.csr_array) -> Value:
    """Each component is a sum of the codes that its column names; columns are filled up with zeros."""
    columns = sp.csc_array(matrix)
    counts = np.diff(columns.indptr)
    places = np.zeros((columns.shape[1], int(counts.max(initial=1))), dtype=np.int32)
    values = np.zeros(places.shape, dtype=np.float32)
    filled = np.arange(places.shape[1]) < counts[:, None]
    places[filled], values[filled] = columns.indices, columns.data
    return (row.take(places, 0) * values).reduce("Sum", 1, keep=False)
