"""The rounds that fit the neuron-selectivity layer: H, then D, then W and b, again and again.

Every step lowers the objective or leaves it as it is, up to rounding; the paper's own plain steps
(`midfea.learning.selectivity.plain`) do not promise that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from midfea.arrays import Array, namespace
from midfea.learning.selectivity.codes import update_H
from midfea.learning.selectivity.dictionary import Decoder, analytic_D, update_D
from midfea.learning.selectivity.encoder import RIDGES, Memory, update_encoder
from midfea.learning.selectivity.objective import Blocks, Layer, Weights, objective_terms
from midfea.learning.selectivity.plain import plain_D, plain_encoder, plain_H

Terms = dict[str, float]
Solver = Literal["proximal", "by class", "plain"]

MAX_HALVINGS = 12
N_WARM_UP_ROUNDS = 6  # of a random start, while lam rises from zero


@dataclass(frozen=True)
class Settings:
    """How the rounds are made.

    solver : "proximal" (all classes' codes at once), "by class" (each class's convex problem solved in
        turn) or "plain" (the appendix's gradient steps).
    encoder_iter : squared-error steps for W, b after their logistic start, within a round.
    decoder : "columns" or "analytic"; see `midfea.learning.selectivity.dictionary`.
    ridge : of that start; see `midfea.learning.selectivity.encoder.update_encoder`.
    """

    solver: Solver = "proximal"
    decoder: Decoder = "columns"
    max_iter: int = 6
    tol: float = 1e-3
    encoder_iter: int = 0
    ridge: float = RIDGES[0]
    nonnegative: bool = True


def rounds(
    X: Array,
    blocks: Blocks,
    layer: Layer,
    weights: Weights,
    settings: Settings,
    on_step: Callable[[str, Terms], None] | None = None,
) -> Iterator[tuple[Layer, Terms]]:
    """The layer and the terms of its objective after each round.

    `on_step` is told the block just updated, "H", "D" or "W, b", and the terms. No step but the plain
    ones raises the objective: one that would, which rounding alone can cause, is shortened. Ends after
    `max_iter` rounds, or one that gains less than `tol` of the objective.
    """
    plain, tol = settings.solver == "plain", settings.tol / 10
    memory = None if plain else Memory(X)

    def step(block: str, layer: Layer) -> Layer:
        if block == "H" and plain:
            return layer._replace(H=plain_H(X, blocks, layer, weights, settings.nonnegative))
        if block == "H":
            by_class, nonnegative = settings.solver == "by class", settings.nonnegative
            options: dict[str, Any] = {"by_class": by_class, "nonnegative": nonnegative, "tol": tol}
            return layer._replace(H=update_H(X, blocks, layer, weights, **options))
        if block == "D":
            return layer._replace(D=_decoder(X, layer, settings))
        if plain:
            W, b = plain_encoder(X, layer)
        else:
            options = {"ridge": settings.ridge, "max_iter": settings.encoder_iter, "memory": memory}
            W, b = update_encoder(X, layer.H, layer.W, layer.b, **options)
        return layer._replace(W=W, b=b)

    if settings.nonnegative:
        layer = layer._replace(H=layer.H.clip(0))
    terms = objective_terms(X, blocks, layer, weights)
    for _ in range(settings.max_iter):
        before = sum(terms.values())
        for block in ("H", "D", "W, b"):
            moved = step(block, layer)
            reached = objective_terms(X, blocks, moved, weights)
            if plain or sum(reached.values()) <= sum(terms.values()):
                layer, terms = moved, reached
            else:
                layer, terms = shortened(X, blocks, layer, moved, terms, weights)
            if on_step is not None:
                on_step(block, terms)
        yield layer, terms
        if before - sum(terms.values()) <= settings.tol * before and not plain:
            return


def _decoder(X: Array, layer: Layer, settings: Settings) -> Array:
    if settings.decoder == "analytic":
        return analytic_D(X, layer)
    return plain_D(X, layer) if settings.solver == "plain" else update_D(X, layer, tol=settings.tol / 10)


def warmed_up(X: Array, blocks: Blocks, layer: Layer, weights: Weights, settings: Settings) -> Layer:
    """A random start made useful: a few rounds in which lam rises from zero to its value.

    Random columns of D have little in common with any sample, so the shrinkage of lam would silence
    nearly all neurons in the first round, and a silent neuron's column is never changed again.
    """
    for i in range(N_WARM_UP_ROUNDS):
        gentle = weights._replace(lam=weights.lam * i / N_WARM_UP_ROUNDS)
        (layer, _), *_ = rounds(X, blocks, layer, gentle, replace(settings, max_iter=1))
    return layer


def shortened(
    X: Array, blocks: Blocks, old: Layer, moved: Layer, terms: Terms, weights: Weights
) -> tuple[Layer, Terms]:
    """Half the step, a quarter, ... until it does not raise the objective; at last no step at all."""
    for halvings in range(1, MAX_HALVINGS + 1):
        D, H, W, b = (a + 0.5**halvings * (m - a) for a, m in zip(old, moved, strict=True))
        nearer = Layer(D / namespace(D).linalg.norm(D, axis=0), H, W, b)
        reached = objective_terms(X, blocks, nearer, weights)
        if sum(reached.values()) <= sum(terms.values()):
            return nearer, reached
    return old, terms
