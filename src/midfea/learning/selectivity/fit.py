"""Starts of the neuron-selectivity layer (the appendix's last section), and the rounds from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midfea.arrays import Array, namespace, special, to_numpy
from midfea.learning.selectivity.encoder import RIDGES, gram_product, update_encoder
from midfea.learning.selectivity.per_class import for_samples
from midfea.learning.selectivity.plain import plain_D, plain_encoder, plain_H
from midfea.learning.selectivity.updates import Layer, Weights, objective_terms, update_D, update_H
from midfea.stages.kmeans import kmeans

Terms = dict[str, float]
Init = Literal["kmeans", "similarity", "random"]
Solver = Literal["proximal", "by class", "plain"]

SHORTENINGS = 12


@dataclass(frozen=True)
class Settings:
    """How the rounds are made.

    solver : "proximal" (all classes' codes at once), "by class" (each class's convex problem solved in
        turn) or "plain" (the appendix's gradient steps).
    code_iter : steps for H within a round.
    plain_iter : steps of each kind within a round of the solver "plain".
    encoder_iter : squared-error steps for W, b after their logistic start, within a round.
    ridge : of that start; see `midfea.learning.selectivity.encoder.update_encoder`.
    """

    solver: Solver = "proximal"
    max_iter: int = 6
    tol: float = 1e-3
    code_iter: int = 45
    plain_iter: int = 30
    encoder_iter: int = 0
    ridge: float = RIDGES[0]
    nonnegative: bool = False


def make_start(
    init: Init, X: Array, blocks: Sequence[slice], n_neurons: int, rng: np.random.RandomState
) -> Layer:
    """D, H by the method named; W = 0 and the best b, so that no sigmoid is saturated.

    "random": non-negative D and H. "similarity", the appendix's other start: D from k-means in each
    class, H from 1 / |d - x|. "kmeans": the same, but a class's samples begin with its own neurons
    only; the similarities are so much alike that the separation of the classes starts out enormous.
    """
    xp = namespace(X)
    there = {"dtype": X.dtype, "device": X.device}
    if init == "random":
        D = xp.asarray(rng.uniform(size=(len(X), n_neurons)), **there)
        H = xp.asarray(rng.uniform(size=(n_neurons, X.shape[1])), **there)
    else:
        centres, owners = _class_centres(to_numpy(X), blocks, n_neurons, rng)
        D = xp.asarray(centres, **there)
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
    return Layer(D, H, xp.zeros((n_neurons, len(X)), **there), special(X).logit(means))


def _class_centres(
    X: NDArray[Any], blocks: Sequence[slice], n_neurons: int, rng: np.random.RandomState
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


def rounds(
    X: Array,
    blocks: Sequence[slice],
    layer: Layer,
    weights: Weights,
    settings: Settings,
    on_step: Callable[[str, Terms], None] | None = None,
) -> Iterator[tuple[Layer, Terms]]:
    """The layer and the terms of its objective after each round: H, then D, then W and b.

    `on_step` is told the block just updated, "H", "D" or "W, b", and the terms. No step but the plain
    ones raises the objective: one that would, which rounding alone can cause, is shortened. Ends after
    `max_iter` rounds, or one that gains less than `tol` of the objective.
    """
    encoder: dict[str, Any] = {}
    if settings.solver != "plain":
        encoder = {"product": gram_product(X), "memory": {}}
    terms = objective_terms(X, blocks, layer, weights)
    for _ in range(settings.max_iter):
        before = sum(terms.values())
        for block in ("H", "D", "W, b"):
            moved = _step(block, X, blocks, layer, weights, settings, encoder)
            reached = objective_terms(X, blocks, moved, weights)
            if settings.solver == "plain" or sum(reached.values()) <= sum(terms.values()):
                layer, terms = moved, reached
            else:
                layer, terms = shortened(X, blocks, layer, moved, terms, weights)
            if on_step is not None:
                on_step(block, terms)
        yield layer, terms
        if before - sum(terms.values()) <= settings.tol * before and settings.solver != "plain":
            return


def shortened(
    X: Array, blocks: Sequence[slice], old: Layer, moved: Layer, terms: Terms, weights: Weights
) -> tuple[Layer, Terms]:
    """Half the step, a quarter, ... until it does not raise the objective; at last no step at all."""
    for halvings in range(1, SHORTENINGS + 1):
        D, H, W, b = (a + 0.5**halvings * (m - a) for a, m in zip(old, moved, strict=True))
        nearer = Layer(D / namespace(D).linalg.norm(D, axis=0), H, W, b)
        reached = objective_terms(X, blocks, nearer, weights)
        if sum(reached.values()) <= sum(terms.values()):
            return nearer, reached
    return old, terms


def _step(
    block: str,
    X: Array,
    blocks: Sequence[slice],
    layer: Layer,
    weights: Weights,
    settings: Settings,
    encoder: dict[str, Any],
) -> Layer:
    plain = settings.solver == "plain"
    if block == "H":
        if plain:
            return layer._replace(H=plain_H(X, blocks, layer, weights, settings.plain_iter))
        H = update_H(
            X,
            blocks,
            layer,
            weights,
            method="by class" if settings.solver == "by class" else "together",
            nonnegative=settings.nonnegative,
            max_iter=settings.code_iter,
            tol=settings.tol / 10,
        )
        return layer._replace(H=H)
    if block == "D":
        if plain:
            return layer._replace(D=plain_D(X, layer, settings.plain_iter))
        return layer._replace(D=update_D(X, layer, tol=settings.tol / 10))
    if plain:
        W, b = plain_encoder(X, layer, settings.plain_iter)
    else:
        options = {"ridge": settings.ridge, "max_iter": settings.encoder_iter, **encoder}
        W, b = update_encoder(X, layer.H, layer.W, layer.b, **options)
    return layer._replace(W=W, b=b)
