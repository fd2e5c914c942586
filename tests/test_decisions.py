"""Thresholds keep on new images what they promise, and say so where nothing can be promised."""

import numpy as np
import pytest

from midfea.learning.decisions import (
    RISK,
    UNSURE,
    DecisionRule,
    MissTarget,
    PrecisionTarget,
    precision_threshold,
    recall_threshold,
    short_number_between,
)
from midfea.learning.folds import make_folds, split
from midfea.learning.predictions import Predictions
from midfea.learning.validation import Validation, no_validation
from midfea.view.decisions import measured, promise, promises, usual_promises
from test_interval import least_squares

N_DRAWS = 1000


def predictions_of(labels, probabilities, names=("crack", "none")):
    return Predictions.of_test_set(np.array(names)[labels], probabilities, np.array(names))


def drawn(rng, n):
    """Confidences and whether the predictions are correct: the more confident, the more often."""
    margin = 3 * rng.normal(1.5, 1.0, n)
    return 1 / (1 + np.exp(-np.abs(margin))), margin > 0


# -- a precision ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "precision"), [(150, 0.95), (600, 0.97), (600, 0.99)])
def test_a_promised_precision_fails_in_five_of_a_hundred_draws_at_most(n, precision):
    rng = np.random.default_rng(n)
    confidence, correct = drawn(rng, 400_000)
    order = np.argsort(-confidence)
    ranked, share = confidence[order], np.cumsum(correct[order]) / np.arange(1, len(order) + 1)

    def true_precision(threshold):
        return share[np.searchsorted(-ranked, -threshold, side="right") - 1]

    failed = promised = failed_of_best = 0
    for _ in range(N_DRAWS):
        chosen = rng.integers(0, len(confidence), n)
        threshold = precision_threshold(confidence[chosen], correct[chosen], precision).value
        if threshold is not None:
            promised += 1
            failed += true_precision(threshold) < precision
        mine = np.argsort(-confidence[chosen])
        good = np.cumsum(correct[chosen][mine]) >= precision * np.arange(1, n + 1)
        last = np.flatnonzero(good)[-1]  # the lowest threshold that looks good
        failed_of_best += true_precision(confidence[chosen][mine][last]) < precision
    assert promised > 0.2 * N_DRAWS
    assert failed <= RISK * N_DRAWS
    assert failed_of_best > 0.2 * N_DRAWS  # what is promised without a margin is not kept


def test_nothing_is_promised_if_confidence_says_nothing():
    """As many wrong as just too many, whatever the confidence: no threshold is good."""
    rng = np.random.default_rng(0)
    found = [
        precision_threshold(rng.random(400), rng.random(400) < 0.9, 0.9).value is not None
        for _ in range(N_DRAWS)
    ]
    assert 0.01 < np.mean(found) < RISK + 0.02


def test_the_promise_of_cross_validation_holds_for_the_model_of_all_images():
    """Thresholds come from models of nine tenths of the images, and are used with another one."""
    failed = promised = 0
    for repeat in range(150):
        rng = np.random.RandomState(repeat)
        centres, y = np.eye(2, 10) * (1.6, 2.0)[repeat % 2], np.arange(300) % 2
        x = rng.normal(size=(300, 10)) + centres[y]
        folds, scores = make_folds(y, 10, repeat), np.zeros(300)
        for fold in range(10):
            train, test = split(folds, fold)
            weights, intercept = least_squares(x[train], y[train])
            scores[test] = x[test] @ weights + intercept
        threshold = precision_threshold(np.abs(scores), (scores > 0) == y, 0.9).value
        if threshold is None:
            continue
        promised += 1
        weights, intercept = least_squares(x, y)
        new_y = rng.randint(0, 2, 20_000)
        new = (rng.normal(size=(20_000, 10)) + centres[new_y]) @ weights + intercept
        decided = np.abs(new) >= threshold
        failed += ((new[decided] > 0) == new_y[decided]).mean() < 0.9
    assert promised > 100
    assert failed <= RISK * 150


def test_too_few_images_for_a_precision_are_said():
    sure, correct = np.linspace(0.9, 1, 298), np.ones(298, dtype=bool)
    nothing = precision_threshold(sure, correct, 0.99)
    assert nothing.value is None
    assert nothing.reason == "that needs 299 images or more, there are 298"
    assert precision_threshold(np.r_[sure, 1], np.r_[correct, True], 0.99).value == 0
    groups = precision_threshold(np.r_[sure, 1], np.r_[correct, True], 0.99, independent=0.5)
    assert groups.reason == "that needs 597 images or more, there are 299"


def test_wrong_predictions_among_the_most_confident_are_counted():
    confidence, correct = np.linspace(1, 0.5, 400), np.ones(400, dtype=bool)
    correct[:5] = False
    nothing = precision_threshold(confidence, correct, 0.99)
    assert nothing.reason == "of the 299 most confident predictions 5 are wrong, too many"


def test_equal_confidences_are_decided_together():
    """A threshold cannot part them, whatever their order."""
    confidence = np.r_[np.full(300, 1.0), np.full(200, 0.75), np.full(100, 0.6)]
    correct = np.r_[np.full(450, True), np.full(50, False), np.full(100, True)]
    found = precision_threshold(confidence, correct, 0.99).value
    assert 0.75 < found <= 1
    shuffled = np.random.default_rng(0).permutation(600)
    assert precision_threshold(confidence[shuffled], correct[shuffled], 0.99).value == found


# -- a class that must not be missed -------------------------------------------------------------------


@pytest.mark.parametrize(("n", "missed"), [(19, 0.05), (120, 0.05), (120, 0.01)])
def test_a_class_is_missed_as_seldom_as_promised_on_average(n, missed):
    """The probabilities are uniform, so a threshold misses as large a share as it is large."""
    rng = np.random.default_rng(n)
    shares = [recall_threshold(rng.random(n), missed).value for _ in range(4000)]
    expected = int(missed * (n + 1) + 1e-9) / (n + 1)
    assert 0.93 * expected < np.mean(shares) < 1.03 * missed


def test_too_few_images_of_a_class_are_said():
    nothing = recall_threshold(np.full(98, 0.5), 0.01)
    assert nothing.value is None
    assert nothing.reason == "that needs 99 images of the class or more, there are 98"
    assert recall_threshold(np.full(99, 0.5), 0.01).value == 0.5
    in_groups = recall_threshold(np.full(99, 0.5), 0.01, independent=0.5)
    assert in_groups.reason == "that needs 198 images of the class or more, there are 99"


def test_what_a_class_target_costs_is_counted():
    labels = np.repeat([0, 1], [20, 40])
    of_crack = np.r_[np.linspace(0.3, 0.9, 20), np.linspace(0.0, 0.39, 40)]
    predictions = predictions_of(labels, np.column_stack([of_crack, 1 - of_crack]))
    target = MissTarget("crack", 0.05)
    threshold = target.threshold(predictions)
    assert threshold.value == 0.3
    called = target.measure(predictions, threshold.value)
    alarms = int((of_crack[20:] >= 0.3).sum())
    assert (called.found, called.class_images, called.false_alarms) == (20, 20, alarms)
    assert called.precision == 20 / (20 + alarms)
    assert called.alarms_per_100 == 100 * alarms / 40
    assert promise(target, predictions) == (
        "At most 5 % of 'crack' missed: answer 'crack' wherever its probability is 0.3 or more. 20 of "
        "20 images of 'crack' are found (100.0%), and 25.0 of 100 other images are called 'crack' "
        "too, so 67% of what is called so is."
    )


def test_a_class_that_is_found_anyway_needs_no_other_answers():
    """A high threshold never takes an answer away."""
    labels = np.repeat([0, 1], [20, 40])
    of_crack = np.r_[np.linspace(0.7, 0.9, 20), np.full(30, 0.1), np.full(10, 0.6)]
    predictions = predictions_of(labels, np.column_stack([of_crack, 1 - of_crack]))
    target = MissTarget("crack", 0.05)
    called = target.measure(predictions, target.threshold(predictions).value)
    assert (called.found, called.false_alarms) == (20, 10)
    assert "missed: the usual answers keep that. 20 of 20" in promise(target, predictions)


# -- rules, words and wishes ---------------------------------------------------------------------------


def test_the_sought_class_comes_before_unsure_and_before_the_most_probable():
    rows = np.array([[0.1, 0.9], [0.04, 0.96], [0.4, 0.6], [0.3, 0.7]])
    assert DecisionRule().decide(rows).tolist() == [1, 1, 1, 1]
    assert DecisionRule(unsure_below=0.65).decide(rows).tolist() == [1, 1, UNSURE, 1]
    both = DecisionRule(sought=(0, 0.4), unsure_below=0.8)
    assert both.decide(rows).tolist() == [1, 1, 0, UNSURE]


def test_thresholds_have_as_few_digits_as_can_be():
    assert short_number_between(0.8, 0.93) == 0.9
    assert short_number_between(0.91, 0.93) == 0.93
    assert short_number_between(0.99612, 0.99617) == 0.99617
    assert short_number_between(0.5, 0.5) == 0.5
    rng = np.random.default_rng(0)
    for low, high in np.sort(rng.random((500, 2)), axis=1):
        assert low < short_number_between(low, high) <= high


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("crack", "write CLASS=SHARE, such as crack=0.01: got 'crack'"),
        ("=0.01", "write CLASS=SHARE"),
        ("crack=little", "write CLASS=SHARE"),
        ("crack=1", "lies between 0 and 1, such as 0.01: got 1"),
    ],
)
def test_a_class_target_that_makes_no_sense_is_refused(written, words):
    with pytest.raises(ValueError, match=words):
        MissTarget.parse(written)


def test_targets_are_read_as_they_are_written():
    assert MissTarget.parse("a=b=0.02") == MissTarget("a=b", 0.02)
    with pytest.raises(ValueError, match="knows no class 'crak', only crack, none"):
        MissTarget("crak", 0.01).number(np.array(["crack", "none"]))
    with pytest.raises(ValueError, match="Nothing is correct for certain"):
        PrecisionTarget(1.0)


def test_what_a_threshold_does_elsewhere_is_measured():
    p = np.r_[np.full(60, 0.97), np.full(40, 0.6)]
    labels = np.r_[np.zeros(57, int), np.ones(3, int), np.zeros(40, int)]
    predictions = predictions_of(labels, np.column_stack([p, 1 - p]))
    target = PrecisionTarget(0.95)
    chosen = target.threshold(
        predictions_of(
            np.r_[np.zeros(100, int), np.ones(80, int)],
            np.repeat([[0.9, 0.1], [0.6, 0.4]], [100, 80], 0),
        )
    )
    assert 0.6 < chosen.value <= 0.9
    assert measured(target, chosen, predictions) == (
        f"95 % correct: decide where the probability is {chosen.value:g} or more. Of these images 60 of "
        "100 (60.0%) are decided, 95.0% of them correctly (95 % interval 86.3 to 98.3 %)."
    )


def test_without_validation_nothing_is_promised():
    empty = Predictions.of_validation(no_validation(2), np.array(["a", "b"]))
    assert usual_promises(empty)[2] == (
        "90 % correct cannot be promised: that needs 29 images or more, there are 0."
    )
    assert "too few images" in promises(empty)
    assert empty.beyond_accuracy == [] and not empty.unequal


# -- unequal classes -----------------------------------------------------------------------------------


def test_the_mean_recall_lies_in_its_interval_as_often_as_promised():
    """Ten to one, in cross-validation and on a test set."""
    rng = np.random.default_rng(0)
    true = np.array([0.7, 0.97])
    labels = np.repeat([0, 1], [30, 300])
    covered = 0
    for _ in range(N_DRAWS):
        correct = rng.random(330) < true[labels]
        predictions = predictions_of(labels, np.eye(2)[np.where(correct, labels, 1 - labels)])
        interval = predictions.mean_recall_interval
        covered += interval.low <= true.mean() <= interval.high
    assert 0.93 <= covered / N_DRAWS <= 0.98


def test_validation_makes_the_interval_of_a_recall_wider():
    y = np.repeat([0, 1], 40)
    folds = make_folds(y, 10, 0)
    names = np.array(["a", "b"])
    record = Validation(np.arange(80), y, np.eye(2)[y], folds, 10, 80)
    tested = Predictions.of_test_set(names[y], np.eye(2)[y], names)
    validated = Predictions.of_validation(record, names)
    assert validated.per_class[0].interval.low < tested.per_class[0].interval.low
    assert validated.mean_recall_interval.low < tested.mean_recall_interval.low
    in_groups = Predictions.of_validation(
        Validation(np.arange(80), y, np.eye(2)[y], folds, 10, 20), names
    )
    assert in_groups.per_class[0].interval.low < validated.per_class[0].interval.low
    assert in_groups.independent == 0.25


def test_guessing_and_the_number_to_look_at_are_named():
    labels = np.repeat([0, 1], [12, 120])
    predictions = predictions_of(labels, np.tile([0.2, 0.8], (132, 1)))
    assert predictions.unequal
    mean, guess = predictions.beyond_accuracy
    assert mean.startswith("Mean recall of the classes: 50.0%")
    assert mean.endswith("the classes are unequal, so this is the number to look at.")
    assert guess == "Always guessing 'none' would be correct for 90.9%."
    equal = predictions_of(np.repeat([0, 1], 10), np.tile([0.2, 0.8], (20, 1)))
    assert not equal.unequal and "unequal" not in " ".join(equal.beyond_accuracy)
    assert [row.name for row in predictions.worst_classes(1)] == ["crack"]
    assert predictions.rarest.name == "crack"
