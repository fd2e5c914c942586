"""A dictionary for sparse codes: atoms and codes found in turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.baselines.limits import Deadline
from midfea.baselines.sparse import lasso_codes
from midfea.parallel import linear_algebra_threads
from midfea.progress import track

Floats = NDArray[np.float64]
BLOCK_SIZE = 8192  # samples that are coded at once
N_SWEEPS = 3  # over all atoms after the codes are found
MIN_RELATIVE_GAIN = 1e-3  # a round must lower the objective by this share, or it is the last
MIN_LENGTH = 1e-6  # of a sample that may become an atom


def learn_dictionary(
    samples: NDArray[Any],
    n_atoms: int,
    penalty: float,
    *,
    max_iter: int = 50,
    random_state: np.random.RandomState,
    n_threads: int = 1,
    deadline: Deadline | None = None,
) -> tuple[Floats, Floats]:
    """Atoms b of length 1 at most, and codes a, with a small mean of |x - B a|^2 / 2 + penalty |a|_1.

    In each round the codes of all samples are found, then atom after atom is given its best value with
    everything else fixed: the objective never rises.

    Parameters
    ----------
    samples : array (n, d)
    n_atoms : int
    penalty : float
    max_iter : most rounds
    random_state : draws the samples that the atoms start from
    n_threads : threads for coding
    deadline : when to give up

    Returns
    -------
    atoms : float64 array (n_atoms, d)
    objective : float64 array (rounds,), its value before the atoms of each round were changed
    """
    samples = np.ascontiguousarray(samples, dtype=np.float64)
    usable = np.flatnonzero(np.linalg.norm(samples, axis=1) > MIN_LENGTH)
    if len(usable) < n_atoms:
        raise ValueError(
            f"{n_atoms} atoms cannot be learned from {len(usable)} samples that are not zero: "
            "give more samples, or fewer atoms"
        )
    atoms = _at_unit_length(samples[random_state.choice(usable, n_atoms, replace=False)])
    history: list[float] = []
    for _ in track(range(max_iter), "dictionary", max_iter):
        squares, sums, value = _code_all(samples, atoms, penalty, n_threads, deadline)
        history.append(value)
        if len(history) > 1 and history[-2] - value < MIN_RELATIVE_GAIN * history[-2]:
            break
        unused = np.flatnonzero(np.diag(squares) == 0)
        for _ in range(N_SWEEPS):
            update_atoms(atoms, squares, sums)
        if len(unused):  # no code would miss it: it may become anything
            atoms[unused] = _at_unit_length(samples[random_state.choice(usable, len(unused))])
    return atoms, np.array(history)


def _at_unit_length(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _code_all(
    samples: Floats, atoms: Floats, penalty: float, n_threads: int, deadline: Deadline | None
) -> tuple[Floats, Floats, float]:
    """For codes A: A^T A (atoms, atoms), A^T X (atoms, d) and the mean objective."""
    with linear_algebra_threads(1):
        gram = atoms @ atoms.T
        squares, sums, total = np.zeros_like(gram), np.zeros_like(atoms), 0.0
    for start in range(0, len(samples), BLOCK_SIZE):
        if deadline is not None:
            deadline.check()
        block = samples[start : start + BLOCK_SIZE]
        with linear_algebra_threads(1):
            correlations = block @ atoms.T
        codes = lasso_codes(gram, correlations, penalty, n_threads=n_threads)
        with linear_algebra_threads(1):
            squares += codes.T @ codes
            sums += codes.T @ block
            errors = block - codes @ atoms
        total += 0.5 * float(np.square(errors).sum()) + penalty * float(np.abs(codes).sum())
    return squares, sums, total / len(samples)


def update_atoms(atoms: Floats, squares: Floats, sums: Floats) -> None:
    """In place: each atom in turn at its best length-limited value, given codes A and the other atoms.

    squares : A^T A
    sums : A^T X
    """
    with linear_algebra_threads(1):
        for j in np.flatnonzero(np.diag(squares)):
            atom = atoms[j] + (sums[j] - squares[j] @ atoms) / squares[j, j]
            atoms[j] = atom / max(1.0, float(np.linalg.norm(atom)))
