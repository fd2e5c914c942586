"""Linear SVMs of samples that are read block by block: the same as in memory, after few readings."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from midfea.learning import large_svm, samples
from midfea.learning.folds import ALWAYS_TRAINING, hold_out_one_fold
from midfea.learning.head import LinearHead
from midfea.learning.large_head import HeldOut, fit_large_head
from midfea.learning.large_svm import LargeSVM, moments
from midfea.learning.samples import ArraySamples, take
from midfea.learning.svm import class_signs
from midfea.parallel import prefetched


class CountedSamples(ArraySamples):
    """How often all samples are read."""

    n_readings = 0

    def blocks(self):
        type(self).n_readings += 1
        return super().blocks()


def problem(n, p, n_classes, noise=0.0, seed=0):
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n)
    x = rng.randn(n, p) + 1.5 * rng.randn(n_classes, p)[y] * (np.arange(p) < 30)
    x *= (1 + np.arange(p) / 10) ** -0.5
    anew = rng.rand(n) < noise
    y[anew] = rng.randint(n_classes, size=anew.sum())
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), y


def fitted(x, y, C, counts=None, start=None, kind=ArraySamples):
    counts = np.ones(len(y), np.float32) if counts is None else counts
    there = kind(x)
    return LargeSVM(there, y, int(y.max()) + 1, counts, C, moments(there, counts, "moments")).fit(start)


def scores(x, weights):
    return x @ weights[:-1] + weights[-1]


@pytest.mark.parametrize("n_kept", [150, 10**6], ids=["some kept", "all kept"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("shape", [(1500, 60, 4), (500, 300, 2), (3000, 40, 5)])
def test_agrees_with_liblinear(shape, C, n_kept, monkeypatch):
    x, y = problem(*shape, noise=0.05)
    monkeypatch.setattr(large_svm, "MAX_BYTES_OF_KEPT", 4 * shape[1] * n_kept)
    other = LinearSVC(C=C, tol=1e-9, max_iter=1_000_000).fit(x, y)
    expected = x @ other.coef_.T + other.intercept_
    found = scores(x, fitted(x, y, C))
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_counts_are_copies_of_samples():
    x, y = problem(400, 30, 3)
    counts = (np.arange(400) % 3).astype(np.float32)
    copies = np.repeat(np.arange(400), counts.astype(int))
    found, expected = fitted(x, y, 1.0, counts), fitted(x[copies], y[copies], 1.0)
    np.testing.assert_allclose(scores(x, found), scores(x, expected), atol=2e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_SQUARED_FEATURES", 10),  # their moments are a diagonal
        ("MAX_BYTES_OF_WEIGHTS", 8 * 61 * 2),  # two classes at a time
        ("MAX_BYTES_OF_FACTORS", 8 * 4 * 20**2),  # of 20 samples for each class
    ],
)
def test_limits_of_memory_change_nothing(name, value, monkeypatch):
    x, y = problem(900, 60, 4, noise=0.1)
    expected = scores(x, fitted(x, y, 1.0))
    monkeypatch.setattr(large_svm, name, value)
    monkeypatch.setattr(large_svm, "MAX_BYTES_OF_KEPT", 4 * 60 * 200)
    monkeypatch.setattr(samples, "BYTES_OF_BLOCK", 4 * 60 * 70)
    np.testing.assert_allclose(scores(x, fitted(x, y, 1.0)), expected, atol=2e-4)


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_few_readings(C, monkeypatch):
    """Also for a large C, where the curvature is far from that of all samples (E75)."""
    x, y = problem(20_000, 100, 5, noise=0.1)
    monkeypatch.setattr(large_svm, "MAX_BYTES_OF_KEPT", 4 * 100 * 2000)
    some = slice(None, None, 20)
    start = fitted(x[some], y[some], C)
    CountedSamples.n_readings = 0
    fitted(x, y, C, start=start, kind=CountedSamples)
    assert CountedSamples.n_readings < 45


def test_a_start_with_no_errors_at_all():
    x, y = problem(100, 200, 3)
    expected = fitted(x, y, 1.0)
    far = 1e3 * expected
    assert (scores(x, far) * class_signs(y) > 1).all()  # no sample counts
    np.testing.assert_allclose(scores(x, fitted(x, y, 1.0, start=far)), scores(x, expected), atol=2e-4)


def test_a_class_of_which_nothing_counts():
    x, y = problem(300, 30, 3)
    counts = (y > 0).astype(np.float32)
    there, two = ArraySamples(x), np.minimum(y, 1)
    weights = LargeSVM(there, two, 2, counts, 1.0, moments(there, counts, "moments")).fit()
    assert (scores(x, weights)[y > 0] > 0.9).all()


def test_take_gives_the_rows_that_are_asked_for(monkeypatch):
    monkeypatch.setattr(samples, "BYTES_OF_BLOCK", 4 * 3 * 7)
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    for rows in ([], [0], [6, 7, 19], range(20)):
        rows = np.array(rows, dtype=np.intp)
        np.testing.assert_array_equal(take(ArraySamples(x), rows, "rows"), x[rows])


def test_the_next_item_is_made_meanwhile():
    made = []

    def items():
        for i in range(5):
            made.append(i)
            yield i
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        for item in prefetched(items()):
            seen.append(item)
    assert seen == made == list(range(5))


def test_what_is_held_out_is_not_trained_on():
    """Labels by chance: the held out ones are correct by chance only, the others more often."""
    rng = np.random.RandomState(0)
    x, y = rng.randn(600, 700).astype(np.float32), rng.randint(2, size=600)
    held_out = HeldOut.of(y, 700, 0, None)
    start = LinearHead(np.zeros((1, 700), np.float32), np.zeros(1, np.float32), 1.0, 1.0)
    head, validation = fit_large_head(ArraySamples(x), y, start, None, held_out, 0)
    assert len(validation) == 60 and validation.n_folds == 10
    assert 0.3 < validation.accuracy < 0.7
    assert (head.scores(x).argmax(axis=1) == y).mean() > 0.95


@pytest.mark.parametrize("n_folds", [10, 100])
def test_one_fold_is_a_fair_part(n_folds):
    rng = np.random.RandomState(0)
    y = np.sort(np.concatenate([np.repeat([0, 1, 2], [6000, 900, 90]), [3], [4, 4]]))
    groups = rng.randint(5000, size=len(y))
    folds = hold_out_one_fold(y, n_folds, 0, groups)
    held_out = folds == 0
    assert set(folds) == {0, ALWAYS_TRAINING}
    assert held_out.mean() == pytest.approx(1 / n_folds, rel=0.2)
    assert not set(groups[held_out]) & set(groups[~held_out])
    assert set(y[~held_out]) == set(y)
    alone = hold_out_one_fold(y, n_folds, 0) == 0
    for label, size in ((0, 6000), (1, 900)):
        assert abs(alone[y == label].sum() - size / n_folds) <= 1
    assert not alone[y == 3].any()


def test_every_sample_is_held_out_as_often():
    y = np.repeat([0, 1], [7, 40])
    times = sum(hold_out_one_fold(y, 5, seed) == 0 for seed in range(2000))
    assert np.all(np.abs(times / 2000 - 0.2) < 0.045)  # five standard deviations
