"""The whole chain of Section 2 in ONNX: from pixels to the features of one image."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.engines.chain import Chain, min_side
from midfea.export import codes, pixels
from midfea.export.descriptors import describe, unit_length
from midfea.export.graph import Value
from midfea.export.pixels import Resize, Size


class Scale(NamedTuple):
    """What is known of a scale when the size of the images is."""

    fits: Value | None  # whether it holds a descriptor; None: it counts in any case
    weights: Resize | None  # None: the image itself
    cells: Value


def scales_of(size: Size, chain: Chain) -> list[Scale]:
    """`Chain.scaled_shapes` of images of that size: made once for all of them."""
    g = size.height.graph
    least = min_side(chain.filters.shape[1], chain.window, chain.padding)
    scales: list[Scale] = []
    full = None
    for factor in sorted(chain.scales, reverse=True):
        here = size if factor == 1 else pixels.scaled_size(size, float(factor))
        grid = codes.grid_of(here, chain)
        full = full or grid
        scales.append(
            Scale(
                fits=g.op("Min", *here) >= least if scales else None,
                weights=None if factor == 1 else pixels.resizing(size, here),
                cells=codes.cell_bounds(chain.partition, grid, full),
            )
        )
    return scales


def pooled(grey: Value, scales: list[Scale], chain: Chain) -> Value:
    """Pooled codes of one image, (n_cells, n_words)."""
    g = grey.graph
    join = "Max" if chain.pooling == "max" else "Add"

    def one_scale(scale: Scale) -> Value:
        copy = grey if scale.weights is None else pixels.resize(grey, scale.weights)
        descriptors = describe(copy, chain, np.float64)
        return codes.pool(codes.encode(descriptors, chain), scale.cells, chain)

    def joined(scale: Scale, table: Value) -> Value:
        assert scale.fits is not None  # all but the first
        return g.choose(
            scale.fits, lambda: g.op(join, table, one_scale(scale)), lambda: g.op("Identity", table)
        )

    table = one_scale(scales[0])
    for scale in scales[1:]:
        table = joined(scale, table)
    return table


def project(rows: Value, matrix: Any, mean: NDArray[Any] | None) -> Value:
    """Pooled codes (n, n_codes) times a dense matrix, if there is one; unit length."""
    if mean is not None:
        rows = rows - mean.astype(np.float32)
    if matrix is not None:
        rows = rows @ np.asarray(matrix, dtype=np.float32)
    return unit_length(rows)


def project_sparse(row: Value, matrix: sp.csr_array) -> Value:
    """Pooled codes (n_codes,) of one image times a sparse matrix.

    Each component is a sum of the codes that its column names; the columns are filled up with zeros.
    """
    columns = sp.csc_array(matrix)
    counts = np.diff(columns.indptr)
    places = np.zeros((columns.shape[1], int(counts.max(initial=1))), dtype=np.int32)
    values = np.zeros(places.shape, dtype=np.float32)
    filled = np.arange(places.shape[1]) < counts[:, None]
    places[filled], values[filled] = columns.indices, columns.data
    return (row.take(places, 0) * values).reduce("Sum", 1, keep=False)
