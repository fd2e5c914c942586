"""Sparse codes of many signals over one dictionary: the lasso and orthogonal matching pursuit.

Both see the dictionary D and a signal x only through inner products: `gram` is D^T D (K, K), a row of
`correlations` (n, K) is D^T x. Codes come back as the rows of (n, K). They are computed signal by
signal, so they do not depend on which signals stand beside them, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfea.parallel import in_parallel

Floats = NDArray[np.float64]
BLOCK = 16  # signals that a thread takes at a time
MIN_STEPS = 10  # of coordinate descent, before the equations of the support are solved
SUMS_IN_ANY_ORDER = {"reassoc", "contract", "nsz"}  # so that they use the processor's vectors
# Squared distance of an atom from the span of others, relative to its squared length: below it the atom
# counts as dependent on them.
MIN_PIVOT = 1e-12
MIN_CORRELATION = 1e-10  # with the residual, relative to the signal's own: below it the signal is coded


def lasso_codes(
    gram: NDArray[Any],
    correlations: NDArray[Any],
    penalty: float,
    *,
    start: NDArray[Any] | None = None,
    n_candidates: int | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_threads: int = 1,
    check: Callable[[], None] | None = None,
) -> Floats:
    """For each signal x the code a with the least |x - D a|^2 / 2 + penalty |a|_1.

    A few steps of coordinate descent where it gains most, then the linear equations of the coefficients
    that are not 0 are solved at once, which makes strongly correlated atoms cheap as well.

    Parameters
    ----------
    gram : array (K, K)
    correlations : array (n, K)
    penalty : float above 0
    start : codes (n, K) to begin with, such as those of a similar problem; not with `n_candidates`
    n_candidates : only so many atoms may be used, those with the largest absolute correlations; None
        means all
    tol : a code is accepted when no optimality condition is missed by more than tol * penalty:
        D^T (x - D a) equals penalty sign(a) where a is not 0, and lies within +-penalty elsewhere
    max_iter : rounds for a signal, after which its code is taken as it is
    n_threads : signals are dealt out to so many threads
    check : called now and then; what it raises ends the work

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.sparse import lasso_codes
    >>> lasso_codes(np.eye(3), np.array([[3.0, -2.0, 0.5]]), penalty=1.0).tolist()
    [[2.0, -1.0, 0.0]]
    """
    if not penalty > 0:
        raise ValueError(f"penalty must be above 0, got {penalty}")
    if start is not None and n_candidates is not None:
        raise ValueError("give start or n_candidates, not both")
    gram, correlations = _as_arrays(gram, correlations)
    if n_candidates is None or n_candidates >= len(gram):
        candidates = None
    elif n_candidates >= 1:
        candidates = np.argpartition(-np.abs(correlations), n_candidates - 1)[:, :n_candidates]
        candidates.sort(axis=1)
    else:
        raise ValueError(f"n_candidates must be 1 or more, got {n_candidates}")

    def code(part: slice, out: Floats) -> None:
        if candidates is None:
            _lasso(gram, correlations[part], penalty, tol, max_iter, out)
        else:
            _shortlist(gram, correlations[part], candidates[part], penalty, tol, max_iter, out)

    codes = np.zeros(correlations.shape) if start is None else np.array(start, dtype=np.float64)
    return _in_blocks(code, codes, n_threads, check)


def omp_codes(
    gram: NDArray[Any], correlations: NDArray[Any], n_nonzero: int, *, n_threads: int = 1
) -> Floats:
    """Orthogonal matching pursuit: codes with at most `n_nonzero` atoms, taken one by one.

    Each time the atom that correlates most with what is left of the signal joins, then all atoms taken
    share the signal by least squares (Rubinstein, Zibulevsky and Elad 2008, "Batch-OMP": the Cholesky
    factor of the atoms taken grows by a row each time). Atoms must have unit length.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.sparse import omp_codes
    >>> omp_codes(np.eye(3), np.array([[3.0, -2.0, 0.5]]), n_nonzero=2).tolist()
    [[3.0, -2.0, 0.0]]
    """
    if n_nonzero < 1:
        raise ValueError(f"n_nonzero must be 1 or more, got {n_nonzero}")
    gram, correlations = _as_arrays(gram, correlations)
    n_nonzero = min(n_nonzero, len(gram))

    def code(part: slice, out: Floats) -> None:
        _omp(gram, correlations[part], n_nonzero, out)

    return _in_blocks(code, np.zeros(correlations.shape), n_threads)


def _as_arrays(gram: NDArray[Any], correlations: NDArray[Any]) -> tuple[Floats, Floats]:
    # Writable as well, or the loops would be compiled once more for arrays that are not.
    gram, correlations = (np.require(a, np.float64, ["C", "W"]) for a in (gram, correlations))
    if gram.ndim != 2 or correlations.ndim != 2 or gram.shape != (correlations.shape[1],) * 2:
        raise ValueError(
            f"gram must be (K, K) and correlations (n, K), got {gram.shape} and {correlations.shape}"
        )
    return gram, correlations


def _in_blocks(
    code: Callable[[slice, Floats], None],
    codes: Floats,
    n_threads: int,
    check: Callable[[], None] | None = None,
) -> Floats:
    parts = [slice(start, start + BLOCK) for start in range(0, len(codes), BLOCK)]
    for _ in in_parallel(lambda i: code(parts[i], codes[parts[i]]), range(len(parts)), n_threads):
        if check is not None:
            check()
    return codes


@njit(cache=True, nogil=True)
def _shortlist(gram, correlations, candidates, penalty, tol, max_iter, codes):  # type: ignore[no-untyped-def]
    """The lasso of each signal over its own candidates."""
    n, m = candidates.shape
    part, own, code = np.empty((m, m)), np.empty((1, m)), np.empty((1, m))
    for i in range(n):
        for a in range(m):
            own[0, a] = correlations[i, candidates[i, a]]
            for b in range(m):
                part[a, b] = gram[candidates[i, a], candidates[i, b]]
        code[:] = 0
        _lasso(part, own, penalty, tol, max_iter, code)
        for a in range(m):
            codes[i, candidates[i, a]] = code[0, a]


@njit(cache=True, nogil=True)
def _lasso(gram, correlations, penalty, tol, max_iter, codes):  # type: ignore[no-untyped-def]
    """Codes of all signals, from those given on."""
    for i in range(len(codes)):
        code, rest = codes[i], correlations[i].copy()  # rest: D^T (x - D a)
        for j in np.flatnonzero(code):
            for k in range(len(rest)):
                rest[k] -= code[j] * gram[j, k]
        for _ in range(max_iter):
            worst = _worst(rest, code, penalty)
            if _violation(rest[worst], code[worst], penalty) <= tol * penalty:
                break
            for _ in range(MIN_STEPS + np.count_nonzero(code)):
                _update(gram, rest, code, _worst(rest, code, penalty), penalty)
            while _solve_support(gram, rest, code, penalty):
                pass


@njit(cache=True, nogil=True, inline="always")
def _violation(rest, value, penalty):  # type: ignore[no-untyped-def]
    """By how much the optimality condition of a coefficient is missed."""
    return abs(rest) - penalty if value == 0 else abs(rest - penalty * np.sign(value))


@njit(cache=True, nogil=True)
def _worst(rest, code, penalty):  # type: ignore[no-untyped-def]
    """The coefficient whose condition is missed most."""
    worst, most = 0, -np.inf
    for j in range(len(code)):
        missed = _violation(rest[j], code[j], penalty)
        if missed > most:
            worst, most = j, missed
    return worst


@njit(cache=True, nogil=True)
def _update(gram, rest, code, j, penalty):  # type: ignore[no-untyped-def]
    """The best value of one coefficient, the others fixed."""
    if gram[j, j] <= 0:  # a zero atom
        return
    pull = rest[j] + gram[j, j] * code[j]
    value = np.sign(pull) * max(abs(pull) - penalty, 0.0) / gram[j, j]
    change = value - code[j]
    if change != 0:
        code[j] = value
        for k in range(len(rest)):
            rest[k] -= change * gram[j, k]


@njit(cache=True, nogil=True)
def _solve_support(gram, rest, code, penalty):  # type: ignore[no-untyped-def]
    """Go to the minimum for the present signs, or as far as the first coefficient that reaches 0.

    If an atom depends on others of the support, D a stays as it is and |a|_1 falls until one reaches 0.
    True if one did: the minimum for the others is still to be found.
    """
    support = np.flatnonzero(code)
    m = len(support)
    lower, step = np.empty((m, m)), np.zeros(m)
    independent = 0
    while independent < m and _append(gram, lower, support, independent, support[independent]):
        independent += 1
    share, first = 1.0, -1  # of the step, and the coefficient that ends it
    if independent == m:
        for a in range(m):
            step[a] = rest[support[a]] - penalty * np.sign(code[support[a]])
    else:
        share = np.inf
        for a in range(independent):
            step[a] = gram[support[independent], support[a]]
    _cholesky_solve(lower, step, independent)
    if independent < m:
        step[independent] = -1
        if (step * np.sign(code[support])).sum() > 0:
            step *= -1
    for a in range(m):
        value = code[support[a]]
        if value * step[a] < 0 and -value / step[a] < share:
            share, first = -value / step[a], a
    for a in range(m):
        j, change = support[a], share * step[a]
        if a == first:
            change = -code[j]
        code[j] += change
        for k in range(len(rest)):
            rest[k] -= change * gram[j, k]
    return first >= 0


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _cholesky_solve(lower, values, m):  # type: ignore[no-untyped-def]
    """Solve L L^T v = values in place, with the leading m rows of L."""
    for a in range(m):
        for k in range(a):
            values[a] -= lower[a, k] * values[k]
        values[a] /= lower[a, a]
    for a in range(m - 1, -1, -1):
        for k in range(a + 1, m):
            values[a] -= lower[k, a] * values[k]
        values[a] /= lower[a, a]


@njit(cache=True, nogil=True)
def _omp(gram, correlations, n_nonzero, codes):  # type: ignore[no-untyped-def]
    """Codes, which are 0 at the start, of all signals."""
    lower = np.empty((n_nonzero, n_nonzero))
    taken, values = np.empty(n_nonzero, dtype=np.int64), np.empty(n_nonzero)
    for i in range(len(codes)):
        rest = correlations[i].copy()  # D^T (x - D a)
        smallest = MIN_CORRELATION * np.abs(rest).max()
        n_taken = 0
        for m in range(n_nonzero):
            best = np.abs(rest).argmax()
            if abs(rest[best]) <= smallest or not _append(gram, lower, taken, m, best):
                break
            taken[m], n_taken = best, m + 1
            for a in range(n_taken):
                values[a] = correlations[i, taken[a]]
            _cholesky_solve(lower, values, n_taken)
            rest[:] = correlations[i]
            for a in range(n_taken):
                for k in range(len(rest)):
                    rest[k] -= values[a] * gram[taken[a], k]
            for a in range(n_taken):
                rest[taken[a]] = 0  # exactly, so that none is taken twice
        for a in range(n_taken):
            codes[i, taken[a]] = values[a]


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _append(gram, lower, taken, m, atom):  # type: ignore[no-untyped-def]
    """Row m of the Cholesky factor, for one atom more; False if it depends on those taken."""
    pivot = gram[atom, atom]
    for a in range(m):
        value = gram[atom, taken[a]]
        for k in range(a):
            value -= lower[m, k] * lower[a, k]
        lower[m, a] = value / lower[a, a]
        pivot -= lower[m, a] ** 2
    if pivot <= MIN_PIVOT * gram[atom, atom]:
        return False
    lower[m, m] = np.sqrt(pivot)
    return True
