"""Starts of the neuron-selectivity layer (the last section of the appendix)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, special, to_numpy
from midfea.learning.kmeans import kmeans
from midfea.learning.selectivity.objective import Blocks, Layer, for_samples

Init = Literal["kmeans", "similarity", "random"]


def make_start(
    init: Init, X: Array, blocks: Blocks, n_neurons: int, rng: np.random.RandomState
) -> Layer:
    """D, H by the method named; W = 0 and the best b, so that no sigmoid is saturated.

    "random": non-negative D and H. "similarity", the appendix's other start: D from k-means in each
    class, H from 1 / |d - x|. "kmeans": the same, but a class's samples begin with its own neurons
    only; the similarities are so much alike that the separation of the classes starts out enormous.
    """
    xp = namespace(X)
    like_X = {"dtype": X.dtype, "device": X.device}
    if init == "random":
        D = xp.asarray(rng.uniform(size=(len(X), n_neurons)), **like_X)
        H = xp.asarray(rng.uniform(size=(n_neurons, X.shape[1])), **like_X)
    else:
        centres, owners = _class_centres(to_numpy(X), blocks, n_neurons, rng)
        D = xp.asarray(centres, **like_X)
        D /= xp.linalg.norm(D, axis=0).clip(xp.finfo(X.dtype).tiny)
        squares = (D**2).sum(axis=0)[:, None] + (X**2).sum(axis=0) - 2 * D.T @ X
        # A sample that is a neuron's centre would be infinitely similar to it.
        H = squares.clip(1e-3) ** -0.5
        if init == "kmeans":
            H *= for_samples(xp.asarray(owners, device=X.device), blocks)
    # A centre at zero, of constant features say, has no direction: any will do.
    lengths = xp.linalg.norm(D, axis=0)
    D[:, lengths < 0.5] = len(D) ** -0.5
    D /= xp.linalg.norm(D, axis=0)
    H /= xp.linalg.norm(H, axis=0)
    means = H.mean(axis=1).clip(1e-3, 1 - 1e-3)
    return Layer(D, H, xp.zeros((n_neurons, len(X)), **like_X), special(X).logit(means))


def _class_centres(
    X: NDArray[Any], blocks: Blocks, n_neurons: int, rng: np.random.RandomState
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Centres (p, n_neurons), and which neurons serve which class (n_neurons, n_classes).

    The neurons are dealt out evenly. Fewer neurons than classes: centres of the classes' means. More
    neurons in a class than samples: samples again, a little displaced.
    """
    n_classes = len(blocks)
    if n_neurons < n_classes:
        means = np.stack([X[:, c].mean(axis=1) for c in blocks])
        centres = kmeans(means, n_neurons, random_state=rng)
        distances = ((means[None] - centres[:, None]) ** 2).sum(axis=2)
        return centres.T.astype(X.dtype), distances == distances.min(axis=0)
    edges = np.arange(n_classes + 1) * n_neurons // n_classes
    columns = []
    for c, k in zip(blocks, np.diff(edges), strict=True):
        points = X[:, c].T
        centres = kmeans(points, min(k, len(points)), random_state=rng)
        again = points[rng.randint(len(points), size=k - len(centres))]
        noise = rng.normal(scale=0.1 * points.std() + 1e-3, size=again.shape)
        columns += [centres, again + noise]
    neurons = np.arange(n_neurons)[:, None]
    owners = (edges[:-1] <= neurons) & (neurons < edges[1:])
    return np.concatenate(columns).T.astype(X.dtype), owners
