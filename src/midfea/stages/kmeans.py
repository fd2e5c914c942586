"""Lloyd's k-means, plain and spherical, on a bounded sample: for the filters and for the words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.arrays import Array, namespace
from midfea.progress import track
from midfea.stages.seeds import Seed, generator

Nearest = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.integer[Any]]]
BLOCK = 4096  # points compared with all centres at once: 4096 x 1000 scores are 16 MB


def kmeans(
    points: Any,
    n_clusters: int,
    *,
    spherical: bool = False,
    max_iter: int = 25,
    tol: float = 1e-4,
    random_state: Seed = None,
    what: str = "clusters",
    nearest: Nearest | None = None,
) -> Array:
    """Centres of `n_clusters` clusters, starting from points drawn at random.

    Parameters
    ----------
    points : array (n, d), used as float32. A tensor stays on its device, and the centres with it: those
        that numpy finds to 1e-5, but for what follows from a point as near to one centre as to another
        (its cluster's centre differs then, the mean cost by less than 0.2 %).
    spherical : compare directions and not distances: centres have unit length, and a point belongs to
        the centre with the largest *absolute* inner product. Rectified filters do not tell a pattern
        from its negative, so a second centre for the negative would be wasted.
    what : the name of this work in progress bars
    nearest : (points, centres) -> the index of each point's centre, if something faster is at hand
        (an engine's search); not for spherical clusters.
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
    xp = namespace(points)
    points = np.ascontiguousarray(points, dtype=np.float32) if xp is np else points.float()
    n = len(points)
    if n < n_clusters:
        raise ValueError(f"{n_clusters} clusters need at least as many points, got {n}")
    rng = generator(random_state)
    squares = xp.einsum("ij,ij->i", points, points)
    if spherical:
        points = points / (squares.clip(1e-20) ** 0.5)[:, None]
    centres = points[np.sort(rng.choice(n, n_clusters, replace=False))]
    previous = np.inf
    for _ in track(range(max_iter), what, max_iter):
        labels, scores = _assign(points, centres, spherical, nearest)
        # What is minimised: squared distances, or one minus the cosine's size.
        cost = 1 - abs(scores) if spherical else squares - 2 * scores
        total = float(cost.mean(dtype=xp.float64))
        if total > (1 - tol) * previous:
            break
        previous = total
        centres = _update(points, labels, xp.sign(scores) if spherical else None, cost, n_clusters)
        if spherical:
            centres /= xp.linalg.norm(centres, axis=1, keepdims=True).clip(1e-20)
    return centres


def _assign(
    points: Array, centres: Array, spherical: bool, nearest: Nearest | None
) -> tuple[Array, Array]:
    """For each point its centre and its score: x.c - |c|^2 / 2, or the signed cosine."""
    xp = namespace(points)
    labels = xp.empty(len(points), dtype=xp.int64, device=points.device)
    best = xp.empty(len(points), dtype=xp.float32, device=points.device)
    half = xp.einsum("ij,ij->i", centres, centres) / 2
    if nearest is not None:
        labels[:] = nearest(points, centres)
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        if nearest is not None:
            mine = labels[part]
            best[part] = xp.einsum("ij,ij->i", points[part], centres[mine]) - half[mine]
            continue
        scores = points[part] @ centres.T
        if not spherical:
            scores -= half
        labels[part] = (abs(scores) if spherical else scores).argmax(axis=1)
        best[part] = scores[xp.arange(len(scores), device=points.device), labels[part]]
    return labels, best


def _update(points: Array, labels: Array, signs: Array | None, cost: Array, n_clusters: int) -> Array:
    """Means of the clusters (of the points turned the same way round)."""
    xp = namespace(points)
    counts = xp.bincount(labels, minlength=n_clusters)
    empty = xp.where(counts == 0)[0]
    if len(empty):
        worst = xp.argsort(-cost, stable=True)[: len(empty)]
        labels = xp.asarray(labels, copy=True)
        labels[worst] = empty
        counts = xp.bincount(labels, minlength=n_clusters)
    signs = xp.ones_like(cost) if signs is None else signs
    sums = _sums(points, labels, signs, n_clusters)
    return sums / xp.asarray(counts.clip(1), dtype=points.dtype)[:, None]


def _sums(points: Array, labels: Array, signs: Array, n_clusters: int) -> Array:
    """Of the points of each cluster, turned by their signs."""
    if isinstance(points, np.ndarray):
        n = len(points)
        members = sp.csr_array((signs, labels, np.arange(n + 1)), shape=(n, n_clusters))
        return members.T @ points
    # In float64 the order of the additions, which is left to chance on a GPU, does not matter.
    sums = points.new_zeros((n_clusters, points.shape[1]), dtype=namespace(points).float64)
    return sums.index_add_(0, labels, (points * signs[:, None]).double()).to(points.dtype)
