"""Descriptors to codes, and codes pooled in cells, in ONNX: `midfea.stages.coding` and `pooling`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from midfea.engines import Chain
from midfea.export.graph import Value
from midfea.export.pixels import Size
from midfea.stages.pooling import STRIDE, Partition, divisions, tenths

BLOCK_SIZE = 512  # descriptors compared with all words at once
N_RIVALS = 3  # words compared once more in float64, beyond those needed
LLC_REGULARIZATION = 1e-4  # as in `midfea.stages.llc_codes`


class Codes(NamedTuple):
    """The codes of a grid of descriptors, (height, width, k) each; k = 1 for VQ."""

    words: Value
    weights: Value


def encode(descriptors: Value, chain: Chain) -> Codes:
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


def pool(codes: Codes, cells: Value, chain: Chain) -> Value:
    """`stages.pool_cells`: (n_cells, n_words), the cells as in `cell_bounds`."""
    g = cells.graph
    absent = g.constant(np.zeros(len(chain.words), dtype=np.float32))

    def one_cell(bounds: Value) -> list[Value]:
        starts, stops = bounds.cut([0], [0], [2]), bounds.cut([0], [2], [4])
        inside = [values.cut((0, 1), starts, stops).reshape(-1) for values in codes]
        reduction = "max" if chain.pooling == "max" else "add"
        return [g.op("ScatterElements", absent, *inside, axis=0, reduction=reduction)]

    return g.scan(one_cell, cells)[0]


def grid_of(size: Size, chain: Chain) -> Size:
    """`Chain.grid`."""
    lost = chain.filters.shape[1] - 1 if chain.padding == "valid" else 0
    height, width = ((side + (1 - lost)) / 2 - (chain.window - 1) for side in size)
    return Size(height, width)


def cell_bounds(partition: Partition, grid: Size, full: Size) -> Value:
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
