"""Class weights: what they mean, and that rare classes are found with them."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import midfea
from midfea.learning.class_weights import make_class_weights
from midfea.learning.folds import make_folds
from midfea.learning.head import calibrate, validation_scores
from midfea.learning.network.head import joint_weights, log_loss
from midfea.learning.predictions import Predictions
from midfea.learning.svm import class_signs, fit_linear_svm, gram, solve_gram
from small import FEW_STEPS, SMALL, SMALL_FAST


def samples(n, n_classes=3, p=20, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % n_classes
    return (rng.randn(n, p) + 0.8 * np.eye(n_classes, p)[y]).astype(np.float32), y


@pytest.mark.parametrize("C", [0.3, 50.0])
def test_a_weight_of_two_is_each_image_of_the_class_twice(C):
    x, y = samples(60)
    weights = np.array([1.0, 2.0, 1.0], dtype=np.float32)
    twice = np.concatenate([np.arange(60), np.flatnonzero(y == 1)])
    weighted = fit_linear_svm(x, y, np.float32(C) * weights[y])
    repeated = fit_linear_svm(x[twice], y[twice], C)
    for mine, theirs in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    scores = x @ weighted[0] + weighted[1]
    assert log_loss(scores, y, weights) == pytest.approx(log_loss(scores[twice], y[twice]), rel=1e-3)
    assert calibrate(scores, y, class_weights=weights) == pytest.approx(
        calibrate(scores[twice], y[twice]), rel=1e-4
    )


def test_weighted_problems_are_solved_as_well_as_by_liblinear():
    x, y = samples(80, p=300)
    C = np.where(y == 0, np.float32(200), np.float32(20))
    alpha = solve_gram(gram(x), class_signs(y), C)  # by factors first
    ours, bias = x.T @ alpha, alpha.sum(axis=0)
    for k in range(3):
        sign = np.where(y == k, 1, -1)
        other = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000).fit(x, sign, sample_weight=C)

        def value(w, b, sign=sign):
            slack = np.maximum(1 - sign * (x @ w + b), 0)
            return (w @ w + b * b) / 2 + C @ slack**2

        best = value(other.coef_[0], other.intercept_[0])
        assert value(ours[:, k], bias[k]) <= best * (1 + 1e-3)


def test_folds_are_solved_with_the_weights_too():
    x, y = samples(66)
    folds = make_folds(y, 3, 0)
    weights = np.array([1.0, 3.0, 0.5], dtype=np.float32)
    scores = validation_scores(x, y, (1.0,), folds, class_weights=weights)[0]
    train, test = folds != 1, folds == 1
    coef, intercept = fit_linear_svm(x[train], y[train], weights[y[train]])
    np.testing.assert_allclose(scores[test], x[test] @ coef + intercept, atol=5e-3)


def test_heads_are_joined_by_what_the_rare_class_needs():
    rng = np.random.RandomState(0)
    y = np.array([0] * 95 + [1] * 5)
    sure_of_all = np.zeros((100, 2))
    sure_of_all[:, 0] = 3.0
    finds_rare = 2.0 * np.eye(2)[y] + 0.3 * rng.randn(100, 2)
    plain = joint_weights([sure_of_all, finds_rare, finds_rare], y)
    balanced = np.array([100 / 190, 10.0], dtype=np.float32)
    weighted = joint_weights([sure_of_all, finds_rare, finds_rare], y, class_weights=balanced)
    assert weighted[0] < 0.5 * plain[0]


def test_balanced_weights_make_classes_count_the_same():
    y = np.array([0] * 30 + [1] * 10 + [2] * 5)
    weights = make_class_weights("balanced", np.array(["a", "b", "c"]), y)
    np.testing.assert_allclose(weights * np.bincount(y), 15)
    assert (make_class_weights("balanced", np.arange(3), np.arange(9) % 3) == 1).all()


@pytest.fixture(scope="module")
def rare(surfaces):
    """Fifteen times as many images of one class as of another."""
    data = midfea.datasets.load_surfaces(n_per_class=90, size=48, random_state=5)
    kinds = data.target
    chosen = np.concatenate([np.flatnonzero(kinds == 0)[:60], np.flatnonzero(kinds == 3)[:4]])
    test = np.concatenate([np.flatnonzero(kinds == k)[60:] for k in (0, 3)])
    names = np.array(data.target_names)
    return [([data.images[i] for i in part], names[kinds[part]]) for part in (chosen, test)]


def recalls(model, test):
    predicted = Predictions.of_test_set(test[1], model.predict_proba(test[0]), model.classes_)
    return predicted.mean_recall


def test_balanced_finds_more_of_a_rare_class(rare):
    train, test = rare
    plain = midfea.MidFeaClassifier(**SMALL_FAST, class_weight=None).fit(*train)
    balanced = midfea.MidFeaClassifier(**SMALL_FAST).fit(*train)
    assert balanced.class_weight == "balanced"  # the preset's
    assert recalls(balanced, test) >= recalls(plain, test)
    by_name = dict(zip(balanced.classes_, balanced.class_weights_.tolist(), strict=True))
    same = midfea.MidFeaClassifier(**SMALL_FAST, class_weight=by_name).fit(*train)
    np.testing.assert_array_equal(same.coef_, balanced.coef_)
    assert midfea.MidFeaClassifier(preset="paper").class_weight is None


def test_the_network_sees_rare_images_more_often(rare):
    pytest.importorskip("torch")
    from midfea.learning.network.training import _batches

    weights = np.array([1.0] * 90 + [9.0] * 10, dtype=np.float32)
    seen = np.concatenate([batch.numpy() for batch in _batches(weights, 200, 32, 0)])
    assert (seen >= 90).mean() == pytest.approx(0.5, abs=0.03)
    even = np.concatenate([b.numpy() for b in _batches(np.ones(40, dtype=np.float32), 10, 20, 0)])
    assert (np.bincount(even) == 5).all()  # each image equally often
    train, _ = rare
    model = midfea.MidFeaClassifier(
        **SMALL, class_weight="balanced", finetune=True, network=FEW_STEPS
    ).fit(*train)
    assert model.network_ is not None


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("Balanced", "class_weight is None"),
        ({"a": 0}, "must be above zero"),
        ({"a": float("nan")}, "must be above zero"),
        ({"z": 2.0}, "names 'z', which is none of the classes"),
        (3, "class_weight is None"),
    ],
)
def test_other_weights_are_refused(weight, message, surfaces):
    images, labels = surfaces
    if isinstance(weight, dict) and "a" in weight:
        labels = np.where(labels == labels[0], "a", labels)
    with pytest.raises(ValueError, match=message):
        midfea.MidFeaClassifier(**SMALL, class_weight=weight).fit(images, labels)
