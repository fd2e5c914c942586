"""Lloyd's k-means, plain and spherical, for the filters and for the words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.arrays import namespace
from midfea.stages.seeds import Seed, generator

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

BLOCK_SIZE = 4096  # points compared with all centres at once: 4096 x 1000 scores are 16 MB


def kmeans(
    points: Any,
    n_clusters: int,
    *,
    spherical: bool = False,
    max_iter: int = 25,
    tol: float = 1e-4,
    random_state: Seed = None,
) -> Floats:
    """Centres of `n_clusters` clusters, starting from points drawn at random.

    Parameters
    ----------
    points : array (n, d), used as float32
    spherical : compare directions and not distances: centres have unit length, and a point belongs to
        the centre with the largest *absolute* inner product. Rectified filters do not tell a pattern
        from its negative, so a second centre for the negative would be wasted.
    tol : stop when the mean gain per round, relative to the mean so far, falls below it.

    Returns
    -------
    centres : float32 array (n_clusters, d)

    An empty cluster is moved onto the point that its own centre serves worst.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import kmeans
    >>> kmeans([[0.0], [0.2], [5.0], [5.2]], 2, random_state=0).ravel().astype(float).round(3).tolist()
    [0.1, 5.1]
    """
    clusters = Clusters(np.ascontiguousarray(points, dtype=np.float32), spherical)
    return lloyd(clusters, n_clusters, range(max_iter), tol, random_state)


class Clusters:
    """The points, and the two halves of a round: `midfea.learning.kmeans` has faster ones."""

    def __init__(self, points: Floats, spherical: bool = False) -> None:
        self.squares = np.einsum("ij,ij->i", points, points)
        self.spherical = spherical
        if spherical:
            points = points / (self.squares.clip(1e-20) ** 0.5)[:, None]
        self.points = points

    def assign(self, centres: Floats) -> tuple[Labels, Floats]:
        """For each point its centre and its score: x.c - |c|^2 / 2, or the signed cosine."""
        labels = np.empty(len(self.points), dtype=np.int64)
        best = np.empty(len(self.points), dtype=np.float32)
        half = np.einsum("ij,ij->i", centres, centres) / 2
        for start in range(0, len(self.points), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            scores = self.points[block] @ centres.T
            if not self.spherical:
                scores -= half
            labels[block] = (abs(scores) if self.spherical else scores).argmax(axis=1)
            best[block] = np.take_along_axis(scores, labels[block, None], axis=1)[:, 0]
        return labels, best

    def costs(self, scores: Floats) -> tuple[Floats, float]:
        """Of each point, and their mean: squared distances, or one minus the cosine's size."""
        costs = 1 - abs(scores) if self.spherical else self.squares - 2 * scores
        return costs, float(costs.mean(dtype=namespace(costs).float64))

    def means(self, labels: Labels, scores: Floats, costs: Floats, n_clusters: int) -> Floats:
        """Centres of the clusters (of the points turned the same way round, and of unit length)."""
        counts = np.bincount(labels, minlength=n_clusters)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            labels = labels.copy()
            labels[np.argsort(-costs, stable=True)[: len(empty)]] = empty
            counts = np.bincount(labels, minlength=n_clusters)
        signs = np.sign(scores) if self.spherical else np.ones_like(scores)
        n = len(self.points)
        members = sp.csr_array((signs, labels, np.arange(n + 1)), shape=(n, n_clusters))
        centres: Floats = (members.T @ self.points) / counts.clip(1).astype(np.float32)[:, None]
        if self.spherical:
            centres /= np.linalg.norm(centres, axis=1, keepdims=True).clip(1e-20)
        return centres


def lloyd(
    clusters: Clusters, n_clusters: int, rounds: Iterable[int], tol: float, random_state: Seed
) -> Any:
    """The centres after the rounds, or after the first one that gains less than `tol` of the cost."""
    n = len(clusters.points)
    if n < n_clusters:
        raise ValueError(f"{n_clusters} clusters need at least as many points, got {n}")
    centres = clusters.points[np.sort(generator(random_state).choice(n, n_clusters, replace=False))]
    previous = np.inf
    for _ in rounds:
        labels, scores = clusters.assign(centres)
        costs, mean_cost = clusters.costs(scores)
        if mean_cost > (1 - tol) * previous:
            break
        previous = mean_cost
        centres = clusters.means(labels, scores, costs, n_clusters)
    return centres
