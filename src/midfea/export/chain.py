"""The engine of exported models: the steps of `midfea.engines.walk` on values of an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from midfea.engines import Chain, Projection
from midfea.engines.walk import pooled_codes
from midfea.export import codes as coding
from midfea.export.codes import Codes, cell_bounds, grid_of
from midfea.export.descriptors import describe, unit_length
from midfea.export.graph import Value
from midfea.export.pixels import Resize, Size, resizing, scaled_size


class Scale(NamedTuple):
    """What is known of a scale when the size of the images is."""

    fits: Value  # whether an image at this scale holds a descriptor
    resize: Resize | None  # None: the image itself
    cells: Value


class Scaled(NamedTuple):
    """An image, not yet resized, and a scale."""

    image: Value
    scale: Scale


class OnnxChain:
    """A chain for images of one size.

    Only the running model knows whether a scale counts. So `describe` and `encode` are put off until
    `pool` writes them into a branch that runs if it does.
    """

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self._scales: list[Scale] = []
        full = None
        for factor in sorted(chain.scales, reverse=True):
            scaled = size if factor == 1 else scaled_size(size, float(factor))
            grid = grid_of(scaled, chain)
            full = full or grid
            fits = size.height.graph.op("Min", *scaled) >= chain.min_side
            resize = None if factor == 1 else resizing(size, scaled, chain.rounded)
            self._scales.append(Scale(fits, resize, cell_bounds(chain.partition, grid, full)))

    def pooled(self, image: Value) -> Value:
        """Codes of a grey image pooled in the cells, over all scales: (n_codes,)."""
        return pooled_codes(image, self).reshape(-1)

    def scales(self, image: Value) -> list[Scaled]:
        """See `midfea.engines.walk.Steps`; `pool` leaves out those that hold no descriptor."""
        return [Scaled(image, scale) for scale in self._scales]

    def describe(self, scaled: Scaled) -> Callable[[], Value]:
        """See `midfea.engines.walk.Steps`."""
        image, scale = scaled

        def descriptors() -> Value:
            resized = image if scale.resize is None else scale.resize.apply(image)
            return describe(resized, self.chain, np.float64)

        return descriptors

    def encode(self, descriptors: Callable[[], Value]) -> Callable[[], Codes]:
        """See `midfea.engines.walk.Steps`."""
        return lambda: coding.encode(descriptors(), self.chain)

    def pool(self, codes: Callable[[], Codes], scaled: Scaled, table: Value | None) -> Value:
        """See `midfea.engines.walk.Steps`; the table is (n_cells, n_words)."""
        g, scale = scaled.image.graph, scaled.scale
        if table is None:  # the largest scale always counts
            return coding.pool(codes(), scale.cells, self.chain)
        join, larger = "Max" if self.chain.pooling == "max" else "Add", table
        return g.choose(
            scale.fits,
            lambda: g.op(join, larger, coding.pool(codes(), scale.cells, self.chain)),
            lambda: larger,
        )


def project(rows: Value, projection: Projection) -> Value:
    """`Projection.apply` of pooled codes (n, n_codes), or of those of `project_sparse`."""
    if projection.mean is not None:
        rows = rows - projection.mean.astype(np.float32)
    if projection.dense is not None:
        rows = rows @ projection.dense.astype(np.float32)
    return unit_length(rows)


def project_sparse(row: Value, projection: Projection) -> Value:
    """Pooled codes (n_codes,) of one image times the matrix, if it is sparse.

    Each component is a sum of the codes that its column names; the columns are filled up with zeros.
    """
    if projection.sparse is None:
        return row
    columns = sp.csc_array(projection.sparse)
    counts = np.diff(columns.indptr)
    places = np.zeros((columns.shape[1], int(counts.max(initial=1))), dtype=np.int32)
    values = np.zeros(places.shape, dtype=np.float32)
    filled = np.arange(places.shape[1]) < counts[:, None]
    places[filled], values[filled] = columns.indices, columns.data
    return (row.take(places, 0) * values).reduce("Sum", 1, keep=False)
