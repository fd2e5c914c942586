"""The interval for the accuracy on new images covers what it promises."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from midfea.learning.folds import make_folds, split
from midfea.learning.interval import cross_validated, wilson
from midfea.learning.validation import Validation, no_validation


def nearest_mean(x, y):
    """Weights and intercept, w . x + b > 0 for class 1. Hardly changes with single samples."""
    means = np.stack([x[y == label].mean(axis=0) for label in (0, 1)])
    return means[1] - means[0], -np.diff(np.square(means).sum(axis=1))[0] / 2


def least_squares(x, y):
    """The same, with a small ridge. Changes much where there are few samples."""
    inputs = np.column_stack([x, np.ones(len(x))])
    gram = inputs.T @ inputs + np.eye(inputs.shape[1])
    solution = np.linalg.solve(gram, inputs.T @ (2 * y - 1))
    return solution[:-1], solution[-1]


def true_accuracy(weights, intercept, centres):
    """For new samples of the same kind: exact, because they are normal around the centres."""
    margins = (centres @ weights + intercept) / np.linalg.norm(weights)
    return (norm.cdf(-margins[0]) + norm.cdf(margins[1])) / 2


def coverage(learn, n, n_folds, n_used, n_repeats):
    rng = np.random.RandomState(n)
    covered = 0
    for repeat in range(n_repeats):
        centres = np.eye(2, 10) * (1.5, 3.0)[repeat % 2]  # hard and easy problems
        y = np.arange(n) % 2
        x = rng.normal(size=(n, 10)) + centres[y]
        folds = make_folds(y, n_folds, repeat)
        used = np.flatnonzero(folds < n_used)
        scores = np.zeros((n, 2))
        for fold in range(n_used):
            train, test = split(folds, fold)
            weights, intercept = learn(x[train], y[train])
            scores[test, 1] = x[test] @ weights + intercept
        record = Validation(used, y[used], scores[used], folds[used], n_folds, len(used))
        covered += record.interval.low <= true_accuracy(*learn(x, y), centres) <= record.interval.high
    return covered / n_repeats


@pytest.mark.parametrize(
    ("n", "n_folds", "n_used", "n_repeats"),
    [(20, 10, 10, 1500), (50, 10, 10, 1000), (200, 10, 10, 600), (1000, 10, 10, 400), (20, 4, 4, 1500)],
)
def test_ninety_five_of_a_hundred_are_covered(n, n_folds, n_used, n_repeats):
    """On average over a steady and an unsteady way to learn, hard problems and easy ones."""
    both = [coverage(learn, n, n_folds, n_used, n_repeats) for learn in (nearest_mean, least_squares)]
    assert min(both) >= 0.90
    assert 0.93 <= np.mean(both) <= 0.98


@pytest.mark.parametrize(("correct", "n"), [(18, 20), (45, 50), (0, 10), (200, 200)])
def test_wilson_is_scipys(correct, n):
    theirs = binomtest(correct, n).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson(correct, n)[1:], theirs, atol=1e-12)


def test_folds_make_it_wider():
    plain, one, all_four = wilson(18, 20), cross_validated(18, 20, 4, 1), cross_validated(18, 20, 4, 4)
    widths = [interval.high - interval.low for interval in (plain, one, all_four)]
    assert widths == sorted(widths) and widths[0] < widths[2]


def test_the_record_counts_the_folds_that_were_held_out():
    """Every quarter of few images, or one of many: the interval knows which."""
    y = np.arange(80) % 2
    scores = np.eye(2)[y]
    folds = make_folds(y, 4, 0)
    every = Validation(np.arange(80), y, scores, folds, 4, 80)
    one = np.flatnonzero(folds == 0)
    single = Validation(one, y[one], scores[one], folds[one], 4, len(one))
    assert every.interval == cross_validated(80, 80, 4, 4)
    assert single.interval == cross_validated(20, 20, 4, 1)
    assert "each of 80 images" in every.how and "in 1 of 4 folds" in single.how


def test_a_group_counts_as_one_image():
    y = np.arange(40) % 2
    folds = make_folds(y, 10, 0)
    alone, grouped = (Validation(np.arange(40), y, np.eye(2)[y], folds, 10, n) for n in (40, 8))
    assert grouped.interval.low < alone.interval.low
    assert grouped.accuracy == alone.accuracy == 1


@pytest.mark.parametrize(
    ("n_classes", "n_each", "said"),
    [(2, 2, False), (2, 9, False), (2, 10, True), (5, 4, False), (5, 5, True), (10, 3, False)],
)
def test_too_few_images_say_nothing_but_a_lower_bound(n_classes, n_each, said):
    y = np.repeat(np.arange(n_classes), n_each)
    wrong = np.eye(n_classes)[(y + (np.arange(len(y)) % 2)) % n_classes]
    record = Validation(np.arange(len(y)), y, wrong, make_folds(y, 10, 0), 10, len(y))
    assert record.is_enough == said
    assert (f"{record.accuracy:.1%} (95 % interval " in str(record.interval)) == said
    assert ("too few images to say (95 % interval " in str(record.interval)) != said
    assert str(record.interval).endswith(" to 100.0 %)") != said
    assert record.interval.low < record.accuracy


def test_nothing_held_out_says_nothing():
    record = no_validation(3)
    assert np.isnan(record.accuracy) and record.interval[1:] == (0.0, 1.0)
    assert record.probabilities.shape == (0, 3)
