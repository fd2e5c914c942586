"""`midfea.stages.kmeans` at work: with an engine's search, or on a device, and with progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from midfea.arrays import Array, namespace
from midfea.parallel import linear_algebra_threads
from midfea.progress import track
from midfea.stages.kmeans import BLOCK_SIZE, Clusters, Floats, Labels, lloyd
from midfea.stages.seeds import Seed

Nearest = Callable[[Floats, Floats], Any]


def kmeans(
    points: Array,
    n_clusters: int,
    *,
    max_iter: int = 25,
    tol: float = 1e-4,
    random_state: Seed = None,
    what: str = "clusters",
    nearest: Nearest | None = None,
) -> Array:
    """Centres of `n_clusters` clusters; see `midfea.stages.kmeans`.

    Parameters
    ----------
    points : array (n, d), used as float32. A tensor stays on its device, and the centres with it: those
        that numpy finds to 1e-5, but for what follows from a point as near to one centre as to another
        (its cluster's centre differs then, the mean cost by less than 0.2 %).
    what : the name of this work in progress bars
    nearest : (points, centres) -> the index of each point's centre, if something faster is at hand
        (an engine's search); not for tensors
    """
    rounds = track(range(max_iter), what, max_iter)
    if namespace(points) is not np:
        return lloyd(_TorchClusters(points.float()), n_clusters, rounds, tol, random_state)
    points = np.ascontiguousarray(points, dtype=np.float32)
    if nearest is not None:
        return lloyd(_SearchedClusters(points, nearest), n_clusters, rounds, tol, random_state)
    with linear_algebra_threads(1):  # near ties fall the same way for any number of threads
        return lloyd(Clusters(points), n_clusters, rounds, tol, random_state)


class _SearchedClusters(Clusters):
    """Points whose nearest centres are searched for by an engine."""

    def __init__(self, points: Floats, nearest: Nearest) -> None:
        super().__init__(points)
        self.nearest = nearest

    def assign(self, centres: Floats) -> tuple[Labels, Floats]:
        labels = np.asarray(self.nearest(self.points, centres), dtype=np.int64)
        scores = np.empty(len(labels), dtype=np.float32)
        half = np.einsum("ij,ij->i", centres, centres) / 2
        for start in range(0, len(labels), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            own = labels[block]
            scores[block] = np.einsum("ij,ij->i", self.points[block], centres[own]) - half[own]
        return labels, scores


class _TorchClusters(Clusters):
    """Tensors on any device."""

    points: Array

    def __init__(self, points: Array) -> None:
        self.squares, self.spherical, self.points = (points * points).sum(dim=1), False, points

    def assign(self, centres: Array) -> tuple[Array, Array]:
        half = (centres * centres).sum(dim=1) / 2
        labels, scores = [], []
        for block in self.points.split(BLOCK_SIZE):
            values = block @ centres.T - half
            labels.append(values.argmax(dim=1))
            scores.append(values.gather(1, labels[-1][:, None])[:, 0])
        xp = namespace(centres)
        return xp.cat(labels), xp.cat(scores)

    def means(self, labels: Array, scores: Array, costs: Array, n_clusters: int) -> Array:
        points, counts = self.points, labels.bincount(minlength=n_clusters)
        empty = (counts == 0).nonzero()[:, 0]
        if len(empty):
            labels = labels.clone()
            labels[costs.argsort(descending=True, stable=True)[: len(empty)]] = empty
            counts = labels.bincount(minlength=n_clusters)
        # In float64 the order of the additions, which is left to chance on a GPU, does not matter.
        sums = points.new_zeros((n_clusters, points.shape[1]), dtype=namespace(points).float64)
        sums.index_add_(0, labels, points.double())
        return sums.to(points.dtype) / counts.clip(1)[:, None]
