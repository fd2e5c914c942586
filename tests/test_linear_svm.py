"""The SVM solves scikit-learn's LinearSVC problem; its logit scale makes probabilities honest."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.svm import LinearSVC

from midfea.learning import head, newton
from midfea.learning import svm as linear_svm
from midfea.learning.folds import make_folds, split


def problem(n, p, n_classes, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    x = rng.randn(n, p) + 1.5 * rng.randn(n_classes, p)[y]
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), y


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0, 300.0])
@pytest.mark.parametrize("shape", [(200, 20, 2), (120, 400, 5), (300, 30, 4)])
def test_agrees_with_liblinear(shape, C):
    x, y = problem(*shape)
    weights, intercepts = linear_svm.fit_linear_svm(x, y, C)
    other = LinearSVC(C=C, tol=1e-8, max_iter=1_000_000).fit(x, y)
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(weights.T, other.coef_, atol=1e-3 * scale)
    np.testing.assert_allclose(intercepts, other.intercept_, atol=2e-3 * scale)


def test_with_and_without_the_gram_matrix(monkeypatch):
    x, y = problem(150, 300, 3)
    with_gram = linear_svm.fit_linear_svm(x, y, 1.0)[0]
    folds = make_folds(y, 3, 0)
    scores = head.validation_scores(x, y, (0.1, 1.0), folds)
    monkeypatch.setattr(newton, "MAX_GRAM_SAMPLES", 0)
    monkeypatch.setattr(head, "MAX_GRAM_SAMPLES", 0)
    np.testing.assert_allclose(linear_svm.fit_linear_svm(x, y, 1.0)[0], with_gram, atol=2e-3)
    again = head.validation_scores(x, y, (0.1, 1.0), folds)
    np.testing.assert_allclose(again, scores, atol=5e-3)


def test_factors_and_conjugate_gradients_find_the_same(monkeypatch):
    x, y = problem(300, 800, 5)
    matrix, targets = linear_svm.gram(x), linear_svm.class_signs(y)
    plain = linear_svm.solve(newton.matrix_product(matrix), targets, 100.0, tol=1e-5)
    factored = linear_svm.solve_gram(matrix, targets, 100.0)
    np.testing.assert_allclose(matrix @ factored, matrix @ plain, atol=5e-3)
    bad = targets * np.float32(1e4)  # any start will do
    mended = linear_svm.solve_gram(matrix, targets, 100.0, bad)
    np.testing.assert_allclose(matrix @ mended, matrix @ plain, atol=5e-3)
    monkeypatch.setattr(linear_svm, "MAX_FACTORED_SAMPLES", 0)
    without = linear_svm.solve_gram(matrix, targets, 100.0)
    np.testing.assert_allclose(matrix @ without, matrix @ plain, atol=5e-3)


def test_validation_scores_come_from_svms_that_did_not_see_the_sample():
    x, y = problem(90, 40, 3)
    folds = make_folds(y, 3, 0)
    scores = head.validation_scores(x, y, (1.0,), folds)[0]
    for fold in range(3):
        train, test = split(folds, fold)
        weights, intercepts = linear_svm.fit_linear_svm(x[train], y[train], 1.0)
        np.testing.assert_allclose(scores[test], x[test] @ weights + intercepts, atol=5e-3)


def test_logit_scale_recovers_known_probabilities():
    """Labels drawn from softmax(3 * scores): the fitted factor must be 3."""
    rng = np.random.RandomState(0)
    scores = rng.randn(20_000, 4)
    y = (softmax(3 * scores, axis=1).cumsum(axis=1) > rng.rand(len(scores), 1)).argmax(axis=1)
    assert head.calibrate(scores, y, n_uniform=1)[0] == pytest.approx(3.0, rel=0.05)
    assert head.calibrate(np.full((3, 2), np.nan), np.array([0, 1, 1]))[0] == 1.0


def test_few_images_leave_doubt():
    """Ten images, all correct: the more images the higher the confidence, but never without doubt."""
    scores = np.tile(np.eye(2), (5, 1))
    few, many = (
        softmax(head.calibrate(s, s.argmax(axis=1), n_uniform=1)[0] * s, axis=1).max()
        for s in (scores, np.tile(scores, (100, 1)))
    )
    assert 0.9 < few < 0.97 < many < 0.9999


def test_the_confidence_of_validation_is_its_accuracy():
    """Every fifth label is drawn anew. The scores as they are would doubt too much."""
    x, y = problem(600, 60, 3)
    rng = np.random.RandomState(1)
    y = np.where(rng.rand(len(y)) < 0.2, rng.randint(3, size=len(y)), y)
    folds = make_folds(y, 5, 0)
    validated = head.validate_C(x, y, (1.0,), folds)
    record = validated.record(y, folds, None)
    assert record.probabilities.max(axis=1).mean() == pytest.approx(record.accuracy, abs=0.04)
    assert softmax(validated.scores, axis=1).max(axis=1).mean() < record.accuracy - 0.1


def test_the_record_of_few_images_leaves_doubt():
    x, y = np.tile(np.eye(3, dtype=np.float32), (4, 1)), np.arange(12) % 3
    folds = make_folds(y, 4, 0)
    record = head.validate_C(x, y, (10.0,), folds).record(y, folds, None)
    assert record.accuracy == 1
    assert 0.9 < record.probabilities.max() < 0.99


def test_two_classes_have_one_column():
    x, y = problem(40, 10, 2)
    weights, intercepts = linear_svm.fit_linear_svm(x, y, 1.0)
    assert weights.shape == (10, 1)
    assert intercepts.shape == (1,)
