"""Lloyd's k-means, plain and spherical, on a bounded sample: for the filters and for the words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.progress import track
from midfea.stages.seeds import Seed, generator

Nearest = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.integer[Any]]]
BLOCK = 4096  # points compared with all centres at once: 4096 x 1000 scores are 16 MB


def kmeans(
    points: NDArray[Any],
    n_clusters: int,
    *,
    spherical: bool = False,
    max_iter: int = 25,
    tol: float = 1e-4,
    random_state: Seed = None,
    what: str = "clusters",
    nearest: Nearest | None = None,
) -> NDArray[np.float32]:
    """Centres of `n_clusters` clusters, starting from points drawn at random.

    Parameters
    ----------
    points : array (n, d), used as float32
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
    points = np.ascontiguousarray(points, dtype=np.float32)
    n = len(points)
    if n < n_clusters:
        raise ValueError(f"{n_clusters} clusters need at least as many points, got {n}")
    rng = generator(random_state)
    squares = np.einsum("ij,ij->i", points, points)
    if spherical:
        points = points / np.sqrt(np.maximum(squares, 1e-20))[:, None]
    centres = points[np.sort(rng.choice(n, n_clusters, replace=False))]
    previous = np.inf
    for _ in track(range(max_iter), what, max_iter):
        labels, scores = _assign(points, centres, spherical, nearest)
        # What is minimised: squared distances, or one minus the cosine's size.
        cost = 1 - np.abs(scores) if spherical else squares - 2 * scores
        total = float(cost.mean(dtype=np.float64))
        if total > (1 - tol) * previous:
            break
        previous = total
        centres = _update(points, labels, np.sign(scores) if spherical else None, cost, n_clusters)
        if spherical:
            centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-20)
    return centres


def _assign(
    points: NDArray[Any], centres: NDArray[Any], spherical: bool, nearest: Nearest | None
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """For each point its centre and its score: x.c - |c|^2 / 2, or the signed cosine."""
    labels = np.empty(len(points), dtype=np.intp)
    best = np.empty(len(points), dtype=np.float32)
    half = np.zeros(len(centres)) if spherical else np.einsum("ij,ij->i", centres, centres) / 2
    if nearest is not None:
        labels[:] = nearest(points, centres)
    for start in range(0, len(points), BLOCK):
        part = slice(start, start + BLOCK)
        if nearest is not None:
            mine = labels[part]
            best[part] = np.einsum("ij,ij->i", points[part], centres[mine]) - half[mine]
            continue
        scores = points[part] @ centres.T - half
        labels[part] = np.argmax(np.abs(scores) if spherical else scores, axis=1)
        best[part] = np.take_along_axis(scores, labels[part, None], axis=1)[:, 0]
    return labels, best


def _update(
    points: NDArray[Any],
    labels: NDArray[np.intp],
    signs: NDArray[Any] | None,
    cost: NDArray[Any],
    n_clusters: int,
) -> NDArray[np.float32]:
    """Means of the clusters (of the points turned the same way round)."""
    counts = np.bincount(labels, minlength=n_clusters)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        worst = np.argsort(-cost, kind="stable")[: len(empty)]
        labels = labels.copy()
        labels[worst] = empty
        counts = np.bincount(labels, minlength=n_clusters)
    signs = np.ones(len(points), dtype=np.float32) if signs is None else signs
    members = sp.csr_array((signs, labels, np.arange(len(points) + 1)), shape=(len(points), n_clusters))
    return (members.T @ points) / np.maximum(counts, 1).astype(np.float32)[:, None]
