"""Where the model disagrees: a short list of labels to look at, and none from a weak model."""

import numpy as np
import pytest
from scipy.special import softmax

from midfea.learning.disagreements import find_disagreements
from midfea.learning.interval import Interval, wilson
from midfea.learning.predictions import Predictions

K = 10


def predictions_of(n, margin, n_planted, seed=0):
    """A model of so many images with normal scores, labels planted wrong; and which those are.

    margin : of the true class over the others: 5 makes a model of 98 %, 2.1 one of about 72 %
    """
    rng = np.random.RandomState(seed)
    true = np.arange(n) % K
    scores = rng.normal(size=(n, K))
    scores[np.arange(n), true] += margin
    labels = true.copy()
    planted = rng.permutation(n)[:n_planted]
    labels[planted] = (labels[planted] + rng.randint(1, K, n_planted)) % K
    probabilities = softmax(1.5 * scores, axis=1)
    found = Predictions(np.arange(K).astype(str), labels, scores.argmax(axis=1), probabilities)
    return found, planted, wilson(int(found.correct.sum()), n)


def test_a_model_of_72_percent_lists_nothing_and_says_why():
    found, _, interval = predictions_of(1000, 2.1, 0)
    assert 0.67 < interval.accuracy < 0.77
    rows, reason = find_disagreements(found, interval)
    assert len(rows) == 0 and found.mistakes().size > 200
    assert reason.startswith(f"The model is right for {interval.accuracy:.1%} of images (95 % interval ")
    assert "the model is usually the one that is wrong" in reason
    assert "must reach 80%" in reason


@pytest.mark.parametrize("seed", range(3))
def test_a_good_model_lists_planted_errors_and_little_else(seed):
    found, planted, interval = predictions_of(1000, 5, 30, seed)
    rows, reason = find_disagreements(found, interval)
    assert reason is None
    n_found = len(set(rows) & set(planted))
    assert n_found >= 15 and n_found >= 0.8 * len(rows)


def test_a_good_model_of_clean_labels_lists_next_to_nothing():
    found, _, interval = predictions_of(1000, 3.1, 0)
    assert 0.85 < interval.accuracy < 0.95
    rows, _ = find_disagreements(found, interval)
    assert len(rows) <= 0.1 * len(found.mistakes())


def test_only_wrong_predictions_are_listed_the_surest_first():
    found, _, interval = predictions_of(1000, 5, 30)
    rows, _ = find_disagreements(found, interval)
    assert not found.correct[rows].any()
    assert (np.diff(found.confidence[rows]) <= 0).all()


def test_a_class_that_is_never_predicted_correctly_accuses_nobody():
    """Nothing says how sure the model is where it is right about this class."""
    probabilities = np.tile([0.999, 0.0005, 0.0005], (50, 1))
    probabilities[0] = [0.0, 0.001, 0.999]
    found = Predictions.of_test_set(["a"] * 50, probabilities, np.array(["a", "b", "c"]))
    assert len(find_disagreements(found, wilson(49, 50)).rows) == 0


def test_without_validation_there_is_no_list():
    found = Predictions.of_test_set([], np.zeros((0, 2)), np.array(["a", "b"]))
    assert len(find_disagreements(found, Interval(float("nan"), 0.0, 1.0)).rows) == 0
