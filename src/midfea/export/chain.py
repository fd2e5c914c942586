"""The engine of exported models: the steps of `midfea.engines.walk` on values of an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from midfea.engines import Chain, Projection
from midfea.export import codes as coding
from midfea.export.descriptors import describe, unit_length
from midfea.export.graph import Value
from midfea.export.pixels import Resize, Size, resizing, scaled_size


class Scaled(NamedTuple):
    """An image, not yet resized, and what is known of a scale when the size of the images is."""

    image: Value
    fits: Value  # whether an image at this scale holds a descriptor
    resize: Resize | None  # None: the image itself
    cells: Value


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
            grid = coding.grid_of(scaled, chain)
            full = full or grid
            fits = size.height.graph.op("Min", *scaled) > chain.min_side - 1
            resize = None if factor == 1 else resizing(size, scaled, chain.rounded)
            self._scales.append((fits, resize, coding.cell_bounds(chain.partition, grid, full)))

    def scales(self, image: Value) -> list[Scaled]:
        """See `midfea.engines.walk.Steps`; `pool` leaves out those that hold no descriptor."""
        return [Scaled(image, *scale) for scale in self._scales]

    def describe(self, scaled: Scaled) -> Callable[[], Value]:
        """See `midfea.engines.walk.Steps`."""
        image, _, resize, _ = scaled
        return lambda: describe(resize.apply(image) if resize else image, self.chain, np.float64)

    def encode(self, descriptors: Callable[[], Value]) -> Callable[[], coding.Codes]:
        """See `midfea.engines.walk.Steps`."""
        return lambda: coding.encode(descriptors(), self.chain)

    def pool(self, codes: Callable[[], coding.Codes], scaled: Scaled, table: Value | None) -> Value:
        """See `midfea.engines.walk.Steps`; the table is (n_cells, n_words)."""
        g, chain = scaled.image.graph, self.chain
        if table is None:  # the largest scale always counts
            return coding.pool(codes(), scaled.cells, chain)
        join, larger = "Max" if chain.pooling == "max" else "Add", table
        return g.choose(
            scaled.fits,
            lambda: g.op(join, larger, coding.pool(codes(), scaled.cells, chain)),
            lambda: larger,
        )


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
