"""K-SVD: a dictionary over which signals have sparse codes, learned atom by atom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from midfea.baselines.sparse import omp_codes
from midfea.baselines.vectors import Floats, Indices


class Learned(NamedTuple):
    """After a round: atoms (K, p) of unit length, codes (n, K), and |signals - codes atoms|^2."""

    atoms: Floats
    codes: Floats
    error: float


def ksvd(
    signals: Floats,
    atoms: Floats,
    sparsity: int,
    n_iter: int,
    *,
    labels: Indices | None = None,
    owners: Indices | None = None,
    n_threads: int = 1,
) -> Iterator[Learned]:
    """The rounds of K-SVD from the atoms given; the error never rises.

    Each round codes the signals (n, p) by orthogonal matching pursuit, keeping a signal's former code
    where that was better, and then turns each atom, with its coefficients, to the residual of the
    signals that use it, by one step of power iteration towards its first singular vector.

    An atom that no signal uses becomes the signal that is coded worst, one of its class if `labels` of
    the signals and `owners` of the atoms tell classes.
    """
    labels = np.zeros(len(signals), dtype=np.intp) if labels is None else labels
    owners = np.zeros(len(atoms), dtype=np.intp) if owners is None else owners
    atoms = atoms.copy()
    codes, rest = np.zeros((len(signals), len(atoms))), signals.copy()  # rest: signals - codes atoms
    for _ in range(n_iter):
        found = omp_codes(atoms @ atoms.T, signals @ atoms.T, sparsity, n_threads=n_threads)
        found_rest = signals - found @ atoms
        better = np.square(found_rest).sum(axis=1) < np.square(rest).sum(axis=1)
        codes[better], rest[better] = found[better], found_rest[better]
        _update_atoms(signals, atoms, codes, rest, labels, owners)
        yield Learned(atoms.copy(), codes.copy(), float(np.square(rest).sum()))


def _update_atoms(
    signals: Floats, atoms: Floats, codes: Floats, rest: Floats, labels: Indices, owners: Indices
) -> None:
    """Each atom in turn; atoms, codes and rest are changed in place."""
    errors = np.square(rest).sum(axis=1)  # of signals that have not become an atom
    for k, atom in enumerate(atoms):
        used = np.flatnonzero(codes[:, k])
        if len(used):
            part = rest[used] + np.outer(codes[used, k], atom)
            direction = codes[used, k] @ part
            length = np.linalg.norm(direction)
            if length > 0:
                atoms[k] = direction / length
                codes[used, k] = part @ atoms[k]
                rest[used] = part - np.outer(codes[used, k], atoms[k])
        else:
            members = np.flatnonzero(labels == owners[k])
            worst = members[errors[members].argmax()]
            if errors[worst] > 0:
                atoms[k] = signals[worst] / np.linalg.norm(signals[worst])
                errors[worst] = 0
