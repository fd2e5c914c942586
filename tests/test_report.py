"""The report, the learning curve and the counts that they rest on."""

import base64
import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from midfea import MidFeaClassifier
from midfea.learning.curve import SHARES, LearningCurve, learning_curve
from midfea.learning.interval import wilson
from midfea.learning.predictions import Predictions
from midfea.pictures.thumbnails import SIDE, thumbnail
from midfea.report import Facts, Gallery, write_report
from midfea.report.gallery import chosen_images
from midfea.view.charts import curve_drawing, headline, headlines, verdict
from midfea.view.confusion import class_table

STRANGE = "<b>x</b> & 'y' \"z\""


# -- the learning curve ------------------------------------------------------------------------------


@pytest.fixture
def rng_features():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 40)
    centres = rng.normal(size=(3, 300))
    return (centres[y] + 5 * rng.normal(size=(120, 300))).astype(np.float32), y


def test_learning_curve_rises_with_the_images_and_repeats(rng_features):
    x, y = rng_features
    curve = learning_curve(x, y, 1.0, seed=0)
    assert curve.sizes == sorted(curve.sizes)
    assert len(curve.sizes) == len(SHARES)
    assert curve.sizes[-1] == 90  # three quarters
    assert curve.accuracies[-1] > curve.accuracies[0] + 0.05
    assert curve == learning_curve(x, y, 1.0, seed=0)
    assert f"{curve.sizes[-1]} images" in curve_drawing(curve)


def test_the_verdict_on_more_images():
    rising = LearningCurve([10, 20], [0.7, 0.8], [0.0, 0.0])
    flat = LearningCurve([10, 20], [0.8, 0.802], [0.0, 0.0])
    assert "+10.0 points" in verdict(rising)
    assert "likely to help" in verdict(rising)
    assert "help little" in verdict(flat)
    assert "too few" in verdict(LearningCurve([], [], []))


def test_labels_without_meaning_promise_chance_only(rng_features):
    """What is held out stays unseen: shuffled labels cannot be learned."""
    x, y = rng_features
    shuffled = np.random.RandomState(1).permutation(y)
    assert max(learning_curve(x, shuffled, 1.0, seed=0).accuracies) < 0.5


# -- the page ------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would make of the file, as far as the tests want to know."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.buttons, self.pictures, self.data, self.words = [], [], [], "", ""
        self._script = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        if tag == "button" and "data-cell" in found:
            self.buttons.append(found)
        if tag == "img":
            self.pictures.append(found["src"])
        if tag in ("script", "style"):
            self._script = found.get("id", tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._script = None

    def handle_data(self, text):
        if self._script == "data":
            self.data += text
        elif self._script is None:
            self.words += text


@pytest.fixture(scope="module")
def fitted(surfaces):
    images, labels = surfaces
    labels = np.where(labels == "pits", STRANGE, labels)
    settings = {"preset": "fast", "n_words": 40, "n_samples": 4000, "selectivity": 4, "random_state": 0}
    model = MidFeaClassifier(**settings, keep_features=True)
    return model.fit(list(images), labels), images, labels


@pytest.fixture(scope="module")
def report(fitted, tmp_path_factory):
    model, images, labels = fitted
    validation = model.validation_
    predicted = validation.predicted.copy()
    predicted[:3] = 2  # some mistakes, whatever the model predicts
    predicted[-3:] = 0
    predictions = replace(Predictions.of_validation(validation, model.classes_), predicted=predicted)
    gallery = Gallery(
        images=images,
        thumbnails=[thumbnail(image) for image in images],
        names=[f"{STRANGE}/{i}.png" for i in range(len(images))],
    ).take(validation.indices)
    path = tmp_path_factory.mktemp("report") / "report.html"
    facts = Facts(f"Title {STRANGE}", validation.interval, "in validation", "some images", seed=0)
    y = np.searchsorted(model.classes_, labels)
    curve = learning_curve(model.training_features_, y, model.head_.C, 0)
    write_report(path, model, predictions, gallery, facts, curve)
    return path.read_text(encoding="utf-8"), predictions, gallery


def test_nothing_is_fetched_and_names_are_text(report):
    text, _, _ = report
    assert "http:" not in text
    assert "https:" not in text
    page = Page(text)
    assert not [t for t in page.tags if t[0] == "link" or (t[0] == "script" and "src" in t[1])]
    assert all(source.startswith("data:image/") for source in page.pictures)
    assert "<b>x</b>" not in text  # not in the data for the script either
    assert STRANGE in page.words


def test_every_cell_opens_the_images_behind_it(report):
    text, predictions, gallery = report
    page = Page(text)
    data = json.loads(page.data)
    cells = {button["data-cell"] for button in page.buttons}
    confusion = predictions.confusion
    counts = {f"{i}-{j}": int(confusion[i, j]) for i, j in np.argwhere(confusion)}
    assert cells == set(counts)
    assert data["counts"] == counts
    assert data["classes"] == predictions.classes.tolist()
    seen = []
    for cell, indices in data["cells"].items():
        label, predicted = map(int, cell.split("-"))
        assert len(indices) == counts[cell]
        for index in indices:
            file, name, confidence = data["images"][index]
            i = gallery.names.index(name)
            seen.append(i)
            assert (predictions.labels[i], predictions.predicted[i]) == (label, predicted)
            assert confidence == pytest.approx(predictions.confidence[i], abs=1e-3)
            with Image.open(io.BytesIO(base64.b64decode(file))) as image:
                assert max(image.size) <= SIDE
    assert sorted(seen) == list(range(len(predictions.labels)))


def test_all_parts_are_there(report, fitted):
    text, predictions, _ = report
    page = Page(text)
    parts = [found["id"] for tag, found in page.tags if tag == "section"]
    assert parts == [
        "confusion",
        "pairs",
        "classes",
        "decisions",
        "mistakes",
        "curve",
        "filters",
        "stages",
        "neurons",
        "how",
    ]
    assert f"{len(fitted[0].filters_)} filters of 7×7 pixels" in page.words
    wrong = int((~predictions.correct).sum())
    assert f"{wrong} of {len(predictions.labels)} images" in page.words
    assert "recall" in page.words and "precision" in page.words
    for word in ("Command", "Seed", "numpy", "scikit-learn", "n_words", "ms"):
        assert word in page.words


def test_the_most_confident_mistakes_come_first(report):
    _, predictions, _ = report
    wrong = predictions.mistakes()
    assert set(wrong) == set(np.flatnonzero(predictions.labels != predictions.predicted))
    assert (np.diff(predictions.confidence[wrong]) <= 0).all()


def test_pairs_are_counted(report):
    _, predictions, _ = report
    pairs = predictions.confused_pairs()
    assert sum(pair.images for pair in pairs) == (~predictions.correct).sum()
    assert [pair.images for pair in pairs] == sorted((pair.images for pair in pairs), reverse=True)


def test_recall_and_precision_are_scikit_learns(report):
    from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score

    _, predictions, _ = report
    rows = predictions.per_class
    truth = predictions.labels, predictions.predicted
    np.testing.assert_allclose([r.recall for r in rows], recall_score(*truth, average=None))
    np.testing.assert_allclose([r.precision for r in rows], precision_score(*truth, average=None))
    assert predictions.mean_recall == pytest.approx(balanced_accuracy_score(*truth))


def test_classes_without_images_or_predictions():
    """A folder to evaluate may lack classes; a class may never be predicted."""
    rows = Predictions.of_test_set(
        ["a", "c"], [[1, 0, 0], [1, 0, 0]], np.array(["a", "b", "c"])
    ).per_class
    assert [row.recall for row in rows] == [1, None, 0]
    assert [row.precision for row in rows] == [0.5, None, None]


def test_a_page_of_many_images_stays_small(report):
    """Mistakes are chosen first, then the first images of each cell."""
    _, predictions, _ = report
    n_wrong = int((~predictions.correct).sum())
    chosen = chosen_images(predictions, [100] * len(predictions.labels), max_bytes=100 * (n_wrong + 3))
    assert set(np.flatnonzero(~predictions.correct)) <= set(chosen)
    assert len(chosen) == n_wrong + 3
    assert len({predictions.labels[i] for i in chosen if predictions.correct[i]}) == 3


def test_a_classifier_of_another_kind_shows_no_inside(fitted, report, tmp_path):
    """Such as one read from an ONNX file; and without training images there is no curve."""

    class Exported:
        predict_proba = staticmethod(fitted[0].predict_proba)

    _, predictions, gallery = report
    facts = Facts("x", wilson(1, 2), "on a test set")
    write_report(tmp_path / "r.html", Exported(), predictions, gallery, facts)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    parts = [found["id"] for tag, found in page.tags if tag == "section"]
    assert parts == ["confusion", "pairs", "classes", "decisions", "mistakes", "how"]


@pytest.mark.parametrize(("correct", "n"), [(0, 3), (1, 2), (19, 20), (20, 20), (5000, 5000)])
def test_the_accuracy_lies_on_its_scale(correct, n):
    drawn = Page(headline(wilson(correct, n)))
    places = [float(found["x"].rstrip("%")) for tag, found in drawn.tags if tag == "text"]
    assert places[0] == 0 and places[-1] == 100
    assert all(0 <= float(f["x1"].rstrip("%")) <= 100 for tag, f in drawn.tags if tag == "line")
    assert "style" not in {name for _, found in drawn.tags for name in found}  # forbidden when served


def test_the_report_shows_the_accuracy_of_the_model(fitted, report):
    """The one record of `fit` says it, whatever the predictions of this page."""
    interval = fitted[0].validation_.interval
    words = Page(report[0]).words
    assert f"{interval.accuracy:.1%}accuracy on new images" in words
    assert f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %" in words


def test_the_headline_of_unequal_classes_is_the_mean_recall():
    labels = np.repeat([0, 1], [10, 90])
    guessed = Predictions.of_test_set(
        np.array(["crack", "none"])[labels], np.tile([0.1, 0.9], (100, 1)), np.array(["crack", "none"])
    )
    words = Page(headlines(wilson(90, 100), guessed)).words
    assert words.index("50.0%mean recall of the classes on new images") < words.index("90.0%accuracy")
    table = Page(class_table(guessed)).words
    assert "Always guessing 'none' would be correct for 90.0%." in table
    equal = replace(guessed, labels=np.repeat([0, 1], 50))
    assert "mean recall" not in Page(headlines(wilson(50, 100), equal)).words


def test_features_are_kept_only_when_asked_for(surfaces):
    images, labels = surfaces
    model = MidFeaClassifier(n_words=20, n_samples=1000, random_state=0).fit(list(images), labels)
    assert not hasattr(model, "training_features_")
