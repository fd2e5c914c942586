"""Where the neuron-selectivity layer's optimisation starts (the appendix's last section)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from midfea.learning.selectivity import Layer
from midfea.stages.kmeans import kmeans

Array = NDArray[Any]


def random_start(X: Array, n_neurons: int, rng: np.random.RandomState) -> Layer:
    """Non-negative random D and H."""
    D = rng.uniform(size=(len(X), n_neurons)).astype(X.dtype)
    H = rng.uniform(size=(n_neurons, X.shape[1])).astype(X.dtype)
    D /= np.linalg.norm(D, axis=0)
    H /= np.linalg.norm(H, axis=0)
    return _with_constant_encoder(X, D, H)


def kmeans_start(
    X: Array, blocks: Sequence[slice], n_neurons: int, rng: np.random.RandomState
) -> Layer:
    """D from k-means in each class, H from the similarity 1 / |d - x| to every neuron."""
    D = _allocated(X, blocks, n_neurons, rng)
    D /= np.maximum(np.linalg.norm(D, axis=0), np.finfo(X.dtype).tiny)
    squares = (D**2).sum(axis=0)[:, None] + (X**2).sum(axis=0) - 2 * D.T @ X
    # A sample that is a neuron's centre is infinitely similar to it: bounded as for a distance 0.03.
    H = 1 / np.sqrt(np.maximum(squares, 1e-3))
    H /= np.linalg.norm(H, axis=0)
    return _with_constant_encoder(X, D, H)


def neurons_per_class(n_neurons: int, n_classes: int) -> NDArray[np.intp]:
    """As even as can be, the first classes having one more."""
    return np.diff(np.arange(n_classes + 1) * n_neurons // n_classes)[::-1]


def _allocated(
    X: Array, blocks: Sequence[slice], n_neurons: int, rng: np.random.RandomState
) -> Array:
    """Centres of each class; of the classes' means if there are fewer neurons than classes."""
    if n_neurons < len(blocks):
        means = np.stack([X[:, c].mean(axis=1) for c in blocks])
        return kmeans(means, n_neurons, random_state=rng).T.astype(X.dtype)
    columns = []
    for c, k in zip(blocks, neurons_per_class(n_neurons, len(blocks)), strict=True):
        points = X[:, c].T
        centres = kmeans(points, min(k, len(points)), random_state=rng).astype(X.dtype)
        spare = points[rng.randint(len(points), size=k - len(centres))]
        noise = rng.normal(scale=0.1 * points.std() + 1e-3, size=spare.shape)
        columns += [centres, spare + noise.astype(X.dtype)]
    return np.concatenate(columns).T


def _with_constant_encoder(X: Array, D: Array, H: Array) -> Layer:
    """W = 0 and the best b: a start from which no sigmoid is saturated."""
    means = np.clip(H.mean(axis=1), 1e-3, 1 - 1e-3)
    return Layer(D, H, np.zeros((D.shape[1], len(X)), dtype=X.dtype), logit(means).astype(X.dtype))
