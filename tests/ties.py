"""Words between which float32 cannot decide, and what exact arithmetic decides."""

import numpy as np

from midfea import stages
from midfea.stages.low_level import EQUAL


def exact_descriptors(image, chain):
    """The plain stages in float64, after the responses, which are exact: (n, d)."""
    responses = stages.convolve(image, chain.filters, chain.padding).astype(np.float64)
    responses = np.abs(responses) if chain.rectify else responses
    maps = stages.normalize_maps(responses, stages.flat_below(image, responses, chain.floor))
    maps = stages.normalize_maps(stages.threshold_maps(maps), EQUAL)
    points = stages.assemble_descriptors(stages.max_pool_3d(maps, chain.pairs), chain.window)
    return points.reshape(-1, points.shape[-1])


def tied_words(points, k, n_points=30):
    """For some of the points k - 1 near words, and two that are equally far but for their rounding."""
    rng = np.random.RandomState(0)
    words = []
    for point in points[rng.permutation(np.flatnonzero(points.any(axis=1)))[:n_points]]:
        steps = stages.unit_length(rng.normal(size=(k, len(point))))
        steps *= rng.uniform([[0.1]] + [[0.03]] * (k - 1), [[0.13]] + [[0.08]] * (k - 1))
        words += [*(point + steps[1:]), point + steps[0], point - steps[0]]
    return np.array(words, dtype=np.float32)


def exactly_nearest(points, words, k):
    words = words.astype(np.float64)
    scores = points @ words.T - np.square(words).sum(axis=1) / 2
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]
