"""The objective of Fisher discrimination dictionary learning, and the steps that lower it.

Samples A (n, p), atoms D (K, p) and codes X (n, K) have their vectors in rows; each sample and each atom
belongs to a class. The objective is

    sum_i { |A_i - X_i D|^2 + |A_i - X_i^i D_i|^2 + sum_(j != i) |X_i^j D_j|^2 }
        + lambda1 |X|_1 + lambda2 (tr S_W - tr S_B + eta |X|^2),

X_i^j being the coefficients of samples of class i for atoms of class j, S_W the scatter of the codes
within classes, S_B that of the classes' means. Gathered, and with |A|^2 left aside, it is

    <X, X G - 2 T + lambda2 F(X)> + 2 |A|^2 + lambda1 |X|_1,

where G = D D^T with the blocks of each class doubled, T = A D^T with each sample's own class doubled,
and F(X) = (1 + eta) X - 2 (means of the classes) + (mean of all).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from midfea.baselines.sparse import lasso_codes
from midfea.baselines.vectors import Floats, Indices

MAX_PASSES = 2  # over the codes in a round
MIN_GAIN = 1e-4  # of the objective: the passes stop at one that lowers it by a smaller share


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples (n, p) of length 1 with class numbers, class numbers of the atoms, and the factors."""

    samples: Floats
    labels: Indices
    owners: Indices
    lambda1: float
    lambda2: float
    eta: float

    def products(self, atoms: Floats) -> tuple[Floats, Floats]:
        """G and T."""
        gram = atoms @ atoms.T
        gram += np.where(self.owners[:, None] == self.owners, gram, 0)
        targets = self.samples @ atoms.T
        targets[self.labels[:, None] == self.owners] *= 2
        return gram, targets

    def objective(self, codes: Floats, gram: Floats, targets: Floats) -> float:
        """Its value, given G and T."""
        means = class_means(codes, self.labels)[self.labels]
        fisher = (1 + self.eta) * codes - 2 * means + codes.mean(axis=0)
        smooth = np.vdot(codes, codes @ gram - 2 * targets + self.lambda2 * fisher)
        whole = smooth + 2 * np.vdot(self.samples, self.samples)
        return float(whole + self.lambda1 * np.abs(codes).sum())


def update_codes(
    problem: Problem,
    atoms: Floats,
    codes: Floats,
    n_threads: int = 1,
    check: Callable[[], None] | None = None,
) -> Floats:
    """Passes over the codes, each of which solves one lasso for each sample.

    The samples meet in the means alone. With those of the former codes X', and m_i and m standing for
    the class's mean and for the mean of all,

        -2 |m_i|^2 <= -4 <m_i', x> + ...   and   |m|^2 <= 2 <m', x> + |x - x'|^2 + ...

    per sample, with equality at X'; so the minimum of the right-hand sides never raises the objective.
    """
    gram, targets = problem.products(atoms)
    curved = gram + problem.lambda2 * (2 + problem.eta) * np.eye(len(gram))
    value = problem.objective(codes, gram, targets)
    for _ in range(MAX_PASSES):
        means = class_means(codes, problem.labels)[problem.labels]
        pull = targets + problem.lambda2 * (2 * means - codes.mean(axis=0) + codes)
        codes = lasso_codes(
            curved, pull, problem.lambda1 / 2, start=codes, n_threads=n_threads, check=check
        )
        former, value = value, problem.objective(codes, gram, targets)
        if former - value <= MIN_GAIN * former:
            break
    return codes


def update_atoms(problem: Problem, atoms: Floats, codes: Floats) -> Floats:
    """Each atom at its best direction in turn, the others and the codes being fixed."""
    atoms = atoms.copy()
    rest = problem.samples - codes @ atoms
    for c in np.unique(problem.owners):
        own, members = np.flatnonzero(problem.owners == c), np.flatnonzero(problem.labels == c)
        part, old = codes[:, own], atoms[own]
        squares = part.T @ part
        pull = part.T @ rest + squares @ old + part[members].T @ problem.samples[members]
        new = old.copy()
        for k in range(len(own)):
            # Twice: these atoms' codes appear in |A - X D|^2, and once more alone.
            direction = pull[k] - 2 * (squares[k] @ new - squares[k, k] * new[k])
            length = np.linalg.norm(direction)
            if squares[k, k] > 0 and length > 0:
                new[k] = direction / length
        rest -= part @ (new - old)
        atoms[own] = new
    return atoms


def class_means(codes: Floats, labels: Indices) -> Floats:
    """The mean code of each class, (n_classes, K)."""
    return np.stack([codes[labels == c].mean(axis=0) for c in range(int(labels.max()) + 1)])
