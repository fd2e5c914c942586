"""What the mathematics of sparse codes promises."""

import numpy as np
import pytest

from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.sparse import lasso_codes, omp_codes


def unit_rows(rng, n, dim, shift=0.0):
    rows = rng.normal(size=(n, dim)) + shift
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(params=[0.0, 3.0], ids=["spread", "correlated"])
def problem(request):
    """Signals (40, 12) and atoms (30, 12), more than dimensions; all nearly align if correlated."""
    rng = np.random.RandomState(0)
    return unit_rows(rng, 40, 12, request.param), unit_rows(rng, 30, 12, request.param)


def missed(signals, atoms, codes, penalty):
    """The largest violation of the lasso's optimality conditions."""
    rest = (signals - codes @ atoms) @ atoms.T
    used = np.abs(rest - penalty * np.sign(codes))
    return np.where(codes == 0, np.maximum(np.abs(rest) - penalty, 0), used).max()


@pytest.mark.parametrize("penalty", [0.3, 0.03, 0.001])
def test_lasso_meets_its_optimality_conditions(problem, penalty):
    signals, atoms = problem
    codes = lasso_codes(atoms @ atoms.T, signals @ atoms.T, penalty, tol=1e-6)
    assert missed(signals, atoms, codes, penalty) <= 1.001e-6 * penalty
    assert (codes != 0).any(axis=1).all()


def test_lasso_with_duplicate_and_zero_atoms(problem):
    signals, atoms = problem
    atoms = np.concatenate([atoms, atoms, np.zeros((1, 12))])
    codes = lasso_codes(atoms @ atoms.T, signals @ atoms.T, 0.01)
    assert missed(signals, atoms, codes, 0.01) <= 1.001e-6 * 0.01
    assert not codes[:, -1].any()


def test_lasso_ends_at_the_same_codes_from_any_start():
    rng = np.random.RandomState(1)
    atoms, signals = unit_rows(rng, 10, 12), unit_rows(rng, 5, 12)  # independent: one solution
    gram, correlations = atoms @ atoms.T, signals @ atoms.T
    codes = lasso_codes(gram, correlations, 0.05)
    start = rng.normal(size=codes.shape)
    again = lasso_codes(gram, correlations, 0.05, start=start)
    np.testing.assert_allclose(again, codes, atol=1e-6)


def test_large_penalty_gives_zero_codes(problem):
    signals, atoms = problem
    assert not lasso_codes(atoms @ atoms.T, signals @ atoms.T, 1.001).any()


def test_shortlist_of_all_atoms_is_the_whole(problem):
    signals, atoms = problem
    gram, correlations = atoms @ atoms.T, signals @ atoms.T
    whole = lasso_codes(gram, correlations, 0.03)
    for n in (30, 31):
        np.testing.assert_array_equal(lasso_codes(gram, correlations, 0.03, n_candidates=n), whole)


def test_shortlist_solves_the_lasso_of_the_most_correlated_atoms(problem):
    signals, atoms = problem
    correlations = signals @ atoms.T
    codes = lasso_codes(atoms @ atoms.T, correlations, 0.03, n_candidates=7)
    for signal, code, row in zip(signals, codes, correlations, strict=True):
        nearest = np.argsort(-np.abs(row))[:7]
        assert not np.delete(code, nearest).any()
        assert missed(signal[None], atoms[nearest], code[nearest][None], 0.03) <= 1.001e-6 * 0.03


def slow_omp(atoms, signal, n_nonzero):
    """As in a book: least squares over the atoms taken, from scratch each time."""
    taken, rest = [], signal
    for _ in range(n_nonzero):
        taken.append(int(np.abs(atoms @ rest).argmax()))
        values = np.linalg.lstsq(atoms[taken].T, signal, rcond=None)[0]
        rest = signal - values @ atoms[taken]
    code = np.zeros(len(atoms))
    code[taken] = values
    return code


@pytest.mark.parametrize("n_nonzero", [1, 4, 10])
def test_omp_is_the_plain_one(problem, n_nonzero):
    signals, atoms = problem
    codes = omp_codes(atoms @ atoms.T, signals @ atoms.T, n_nonzero)
    plain = np.array([slow_omp(atoms, signal, n_nonzero) for signal in signals])
    np.testing.assert_allclose(codes, plain, atol=1e-6)
    assert ((codes != 0).sum(axis=1) == n_nonzero).all()


def test_omp_stops_at_a_signal_that_is_coded(problem):
    _, atoms = problem
    gram = atoms @ atoms.T
    codes = omp_codes(gram, 2.5 * gram[:3], 20)
    np.testing.assert_allclose(codes, 2.5 * np.eye(3, 30), atol=1e-12)
    assert not omp_codes(gram, np.zeros((1, 30)), 5).any()
    twice = np.concatenate([atoms, atoms])  # dependent atoms
    assert ((omp_codes(twice @ twice.T, atoms @ twice.T, 20) != 0).sum(axis=1) == 1).all()


@pytest.mark.parametrize(
    "code", [lambda *a, **k: lasso_codes(*a, 0.01, **k), lambda *a, **k: omp_codes(*a, 4, **k)]
)
def test_codes_do_not_depend_on_threads_or_neighbours(problem, code):
    signals, atoms = problem
    gram, correlations = atoms @ atoms.T, signals @ atoms.T
    codes = code(gram, correlations)
    np.testing.assert_array_equal(code(gram, correlations, n_threads=3), codes)
    np.testing.assert_array_equal(code(gram, correlations[7:9]), codes[7:9])
    assert code(gram, correlations[:0]).shape == (0, 30)


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="penalty must be above 0, got 0"):
        lasso_codes(np.eye(2), np.ones((1, 2)), 0)
    with pytest.raises(ValueError, match="n_candidates must be 1 or more"):
        lasso_codes(np.eye(2), np.ones((1, 2)), 1, n_candidates=0)
    with pytest.raises(ValueError, match="start or n_candidates, not both"):
        lasso_codes(np.eye(2), np.ones((1, 2)), 1, start=np.ones((1, 2)), n_candidates=1)
    with pytest.raises(ValueError, match="n_nonzero must be 1 or more"):
        omp_codes(np.eye(2), np.ones((1, 2)), 0)
    with pytest.raises(ValueError, match=r"got \(2, 2\) and \(1, 3\)"):
        omp_codes(np.eye(2), np.ones((1, 3)), 1)


def test_limits():
    Deadline(None, "SRC").check()
    Deadline(60, "SRC").check()
    with pytest.raises(TimeoutError, match="SRC took longer than time_limit=-1 s: raise it"):
        Deadline(-1, "SRC").check()
    check_memory(10**9, None, "SRC")
    check_memory(10**6, 10**6, "SRC")
    with pytest.raises(MemoryError, match="SRC needs about 4 MB, memory_limit allows 2 MB"):
        check_memory(4 * 2**20, 2 * 2**20, "SRC")
