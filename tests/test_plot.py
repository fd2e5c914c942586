"""`midfea.plot`: what is drawn into the axis that is given; estimators in notebooks."""

import numpy as np
import pytest

from midfea import MidFeaClassifier, load, plot
from midfea.pictures.mosaic import mosaic
from small import SMALL

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model(surfaces):
    images, labels = surfaces
    return MidFeaClassifier(**SMALL, selectivity=5).fit(images[:15, :40, :40], labels[:15])


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def drawn(ax):
    """The pixels of the only picture in an axis."""
    (image,) = ax.images
    return np.asarray(image.get_array())


def test_filters(model, ax):
    assert plot.filters(model, ax) is ax
    assert drawn(ax).shape == (7 + 1 + 7, 7 + 1 + 7)  # two by two, a line between them
    limit = np.abs(model.filters_).max()
    expected = 255 * (model.filters_[0] + limit) / (2 * limit)
    np.testing.assert_allclose(drawn(ax)[:7, :7], expected, atol=1)


def test_stage_maps(model, surfaces, ax):
    maps = model.feature_maps(surfaces[0][0])
    plot.stage_maps(maps, "soft_convolution", ax)
    convolved = maps["soft_convolution"]
    expected = 255 * (convolved[..., 0] - convolved.min()) / np.ptp(convolved)
    np.testing.assert_allclose(drawn(ax)[:64, :64], expected, atol=1)
    with pytest.raises(ValueError, match=r"stage is one of 'image', .*got 'codes'"):
        plot.stage_maps(maps, "codes", ax)


def test_evidence_is_orange_for_and_blue_against(model, surfaces, ax):
    found = model.explain(surfaces[0][0])
    plot.evidence(found, ax)
    pixels = drawn(ax).astype(int)
    redder = pixels[..., 0] - pixels[..., 2]
    at_most, at_least = (
        np.unravel_index(f(found.evidence), redder.shape) for f in (np.argmax, np.argmin)
    )
    assert redder[at_most] > 0 > redder[at_least]
    assert "Evidence for" in ax.get_title()


def test_confusion(ax):
    plot.confusion(["a", "a", "b", "b"], ["a", "b", "b", "b"], ax)
    np.testing.assert_allclose(drawn(ax), [[0.5, -0.5], [0, 1]])  # mistakes in another colour
    assert [text.get_text() for text in ax.texts] == ["1", "1", "2"]


def test_confusion_with_names_of_classes(model, surfaces, ax):
    numbers = [0, 1, 1, 2], [0, 1, 2, 2]
    names = [model.classes_[list(part)] for part in numbers]
    expected = [[1, 0, 0], [0, 0.5, -0.5], [0, 0, 1]]
    for labels, predicted in (numbers, names, [part.astype(object) for part in names]):
        np.testing.assert_allclose(drawn_confusion(labels, predicted, model.classes_), expected)
    turned = drawn_confusion(*names, model.classes_[::-1])
    np.testing.assert_allclose(turned, np.array(expected)[::-1, ::-1])


def drawn_confusion(labels, predicted, classes):
    from matplotlib.figure import Figure

    ax = plot.confusion(labels, predicted, Figure().subplots(), classes=classes)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(classes)
    return drawn(ax)


@pytest.mark.parametrize(
    ("labels", "predicted", "classes", "message"),
    [
        ("ab", ["cat", "cat"], None, "one after the other"),
        (["cat", "dog"], ["cat"], None, r"got shapes \(2,\) and \(1,\)"),
        ([[5, 0], [1, 4]], ["cat", "dog"], None, "the classes of the same images"),
        ([], [], ["cat", "dog"], "the same images"),
        (
            ["cat", "cow"],
            ["cat", "cat"],
            ["cat", "dog"],
            "label 'cow' is none of the classes 'cat', 'dog'",
        ),
        ([0, 1], ["cat", "dog"], None, "names and numbers are mixed, 0 and 'dog'"),
        ([0, 2], [0, 1], ["cat", "dog"], "the label 0 is none"),
    ],
)
def test_what_cannot_be_drawn_as_a_confusion_is_refused(ax, labels, predicted, classes, message):
    with pytest.raises(ValueError, match=message):
        plot.confusion(labels, predicted, ax, classes=classes)
    with pytest.raises(ValueError, match=r"ax is a matplotlib axis, got list: name what you give"):
        plot.confusion(["cat"], ["cat"], ["cat"])


def test_neurons(model, ax):
    plot.neurons(model, ax)
    assert drawn(ax).shape == model.ns_layer_.class_responses.shape
    assert [label.get_text() for label in ax.get_xticklabels()] == list(model.classes_)
    with pytest.raises(ValueError, match="has no neurons"):
        plot.neurons(MidFeaClassifier(), ax)


def test_learning_curve(ax):
    plot.learning_curve([10, 20, 40], [0.5, 0.6, 0.7], [0.1, 0.05, 0.02], ax)
    line = ax.lines[0]
    np.testing.assert_allclose(line.get_ydata(orig=False), [0.5, 0.6, 0.7])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "20", "40"]


def test_mosaic_puts_tiles_row_by_row():
    tiles = np.arange(3.0)[:, None, None] * np.ones((2, 2))
    expected = [[0, 0, 255, 127, 127]] * 2 + [[255] * 5] * 3
    np.testing.assert_array_equal(mosaic(tiles, 2), expected)
    coloured = mosaic(np.zeros((5, 4, 3, 3), dtype=np.uint8))
    assert coloured.shape == (2 * 4 + 1, 3 * 3 + 2, 3)


def test_an_axis_is_made_where_there_is_none():
    matplotlib.use("agg")
    from matplotlib import pyplot

    ax = plot.confusion([0, 1], [0, 1])
    assert ax.figure.axes == [ax]
    pyplot.close(ax.figure)


def test_estimators_in_notebooks(model, tmp_path):
    plain = MidFeaClassifier()._repr_html_()
    assert "sk-top-container" in plain
    assert "learned filters" not in plain
    fitted = model._repr_html_()
    assert "sk-top-container" in fitted
    assert "4 filters, 20 words, 3 classes" in fitted
    assert "learned filters" in fitted
    assert model._repr_mimebundle_()["text/html"].endswith(fitted[-200:])
    model.save(tmp_path / "model.midfea")
    assert "3 classes" in load(tmp_path / "model.midfea")._repr_html_()
