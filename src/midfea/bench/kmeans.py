"""Learning words: k-means with the engine's search beside scikit-learn's, on the same descriptors."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min
from threadpoolctl import threadpool_limits

from midfea.baselines.local_features import sample_descriptors
from midfea.bench.common import Inputs, Measured, timed
from midfea.bench.search import describer, nearest
from midfea.learning.kmeans import kmeans
from midfea.provenance import Row

N_SAMPLES = 100_000  # descriptors, as `MidFea` takes them


def measure(inputs: Inputs, n_clusters: int = 1000, max_iter: int = 25) -> Measured:
    """The section `kmeans` of `midfea bench`.

    Seconds on one core, and the sum of squared distances to the nearest centres.

    Both start from points drawn at random and stop early only if nothing changes any more (tol=0), so
    that on many points they do the same number of rounds.
    """
    images, seed = inputs.squares, inputs.seed
    points = sample_descriptors(images, describer(images, seed), N_SAMPLES, np.random.RandomState(seed))
    settings = {"max_iter": max_iter, "tol": 0, "random_state": seed}
    model = KMeans(n_clusters, n_init=1, init="random", algorithm="lloyd", **settings)
    with threadpool_limits(1):
        nearest(points[:100], points[:10])  # compiles
        ours, our_time = timed(kmeans, points, n_clusters, nearest=nearest, **settings)
        _, their_time = timed(model.fit, points)
        centres = {"k-means (midfea)": ours, "k-means (scikit-learn)": model.cluster_centers_}
        distances = [pairwise_distances_argmin_min(points, own)[1] for own in centres.values()]
    rows: list[Row] = [
        {
            "method": name,
            "seconds": round(time / 1e3, 3),
            "threads": 1,
            "ratio": round(time / our_time, 3),
            "points": len(points),
            "clusters": n_clusters,
            "max_iter": max_iter,
            "inertia": float(np.square(distance, dtype=np.float64).sum()),
        }
        for name, time, distance in zip(centres, (our_time, their_time), distances, strict=True)
    ]
    return rows, [], []
