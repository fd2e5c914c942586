"""The paper's steps, one small pure function each, in NumPy: the specification.

They are written to be read beside Section 2 of Kong, Jiang and Yang, "Learning Mid-Level Features
and Modeling Neuron Selectivity for Image Classification". Every faster path is tested against them.

    learn_filters -> soft_convolution -> max_pool_3d -> assemble_descriptors
        -> quantize (or soft_codes, llc_codes) -> pool_cells -> random_projection

Beside it, ours: colour_points -> colour_histogram.
"""

from midfea.stages.coding import llc_codes, nearest_words, quantize, soft_codes
from midfea.stages.colour import cell_means, colour_codes, colour_histogram, colour_points
from midfea.stages.filters import learn_filters, sample_patches
from midfea.stages.kmeans import kmeans
from midfea.stages.low_level import (
    assemble_descriptors,
    convolve,
    flat_below,
    max_pool_3d,
    normalize_maps,
    soft_convolution,
    threshold_maps,
    unit_length,
)
from midfea.stages.pooling import Partition, partition_levels, pool_cells, pool_levels
from midfea.stages.projection import projection_matrix, random_projection

__all__ = [
    "Partition",
    "assemble_descriptors",
    "cell_means",
    "colour_codes",
    "colour_histogram",
    "colour_points",
    "convolve",
    "flat_below",
    "kmeans",
    "learn_filters",
    "llc_codes",
    "max_pool_3d",
    "nearest_words",
    "normalize_maps",
    "partition_levels",
    "pool_cells",
    "pool_levels",
    "projection_matrix",
    "quantize",
    "random_projection",
    "sample_patches",
    "soft_codes",
    "soft_convolution",
    "threshold_maps",
    "unit_length",
]
