"""`midfea.plot`: what is drawn into the axis that is given; estimators in notebooks."""

import numpy as np
import pytest

from midfea import MidFeaClassifier, load, plot
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
    np.testing.assert_allclose(drawn(ax)[:7, :7], model.filters_[0])


def test_stage_maps(model, surfaces, ax):
    maps = model.feature_maps(surfaces[0][0])
    plot.stage_maps(maps, "soft_convolution", ax)
    np.testing.assert_allclose(drawn(ax)[:64, :64], maps["soft_convolution"][..., 0])
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
    np.testing.assert_allclose(drawn(ax), [[0.5, 0.5], [0, 1]])
    assert [text.get_text() for text in ax.texts] == ["1", "1", "2"]


def test_neurons(model, ax):
    plot.neurons(model, ax)
    assert drawn(ax).shape == model.selectivity_.class_responses_.shape
    assert [label.get_text() for label in ax.get_xticklabels()] == list(model.classes_)
    with pytest.raises(ValueError, match="has no neurons"):
        plot.neurons(MidFeaClassifier(), ax)


def test_learning_curve(ax):
    plot.learning_curve([10, 20, 40], [0.5, 0.6, 0.7], [0.1, 0.05, 0.02], ax)
    line = ax.lines[0]
    np.testing.assert_allclose(line.get_ydata(orig=False), [0.5, 0.6, 0.7])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "20", "40"]


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
    assert "4 filters, 20 words, 3 classes, 15 training images" in fitted
    assert "learned filters" in fitted
    assert model._repr_mimebundle_()["text/html"].endswith(fitted[-200:])
    model.save(tmp_path / "model.midfea")
    assert "3 classes" in load(tmp_path / "model.midfea")._repr_html_()
