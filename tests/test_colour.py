"""Colours beside the chain: what a histogram counts, when it is chosen, and that every way agrees."""

from copy import copy

import numpy as np
import pytest

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor, NeuronSelectivity, stages
from midfea.learning.colour import MIN_BANDWIDTH, N_CELLS, learn_colour_words, points_of
from midfea.pictures.images import Images
from midfea.pictures.picture import make_picture
from small import SMALL, SMALL_FAST
from test_explain import adds_up

FAST = SMALL_FAST | {"n_samples": 2000, "n_jobs": 1}


def tinted(n, seed=0, shape=(40, 32), tints=((230, 90, 60), (60, 145, 230))):
    """Noise with the same grey values, whatever the tint: more of the red, or more of the green."""
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 2
    images = []
    for label in y:
        light = rng.randint(60, size=shape)
        shift = int(rng.randint(20, 40)) * (1 if label else -1)
        # 0.299 and 0.587 of 20 and of -10 cancel: grey values stay, but for rounding.
        red, green = 120 - 2 * shift + light, 120 + shift + light
        images.append(np.stack([red, green, 120 + light], axis=2).astype(np.uint8))
    return images, np.where(y, "green", "red")


@pytest.fixture(scope="module")
def few():
    """Tinted surfaces of three kinds and several shapes, few and small."""
    data = midfea.datasets.load_surfaces(n_per_class=5, size=48, random_state=3)
    chosen = np.flatnonzero(np.isin(data.target, (0, 3, 5)))
    rng, images = np.random.RandomState(0), []
    for i in chosen:
        height, width = ((48, 48), (30, 44), (45, 33))[i % 3]
        tint = (
            rng.uniform(0.5, 1.0, size=(height, width, 3)).cumsum(axis=0)
            / np.arange(1, height + 1)[:, None, None]
        )
        images.append((data.images[i][:height, :width, None] * tint).astype(np.uint8))
    return images, np.array(data.target_names)[data.target[chosen]]


# -- the stage ------------------------------------------------------------------------------------------


def test_codes_prefer_near_words():
    points = np.array([[[0.0, 0, 0], [0, 3, 0]]])
    words = np.array([[0, 0, 0], [0, 4, 0]], dtype=np.float32)
    odds = np.exp([-16 / 16, (9 - 1) / 16])  # of the second word, by squared distances over 2 x 8
    expected = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=-1)[None]
    np.testing.assert_allclose(stages.colour_codes(points, words, 8.0), expected)


def test_histogram_of_cells_by_hand():
    """Two words, the left column of the one and the right of the other; sharp codes."""
    points = np.zeros((2, 2, 3))
    points[:, 1, 2] = 100.0
    words = np.array([[0, 0, 0], [0, 0, 100]], dtype=np.float32)
    levels = [(np.full((1, 2), 0.5), np.array([[0.5, 0.5]])), (np.full((1, 2), 0.5), np.eye(2))]
    histogram = stages.colour_histogram(points, words, 1.0, levels)
    np.testing.assert_allclose(histogram, np.sqrt(np.array([0.5, 0.5, 1, 0, 0, 1]) / 3), atol=1e-7)


def test_cells_lie_where_the_colours_are():
    """Half red, half blue: the upper cells hold other words than the lower ones."""
    image = np.zeros((64, 48, 3), dtype=np.uint8)
    image[:32, :, 0], image[32:, :, 2] = 200, 200
    picture = make_picture(image, None)
    colour = learn_colour_words([points_of(picture)], 0.3, np.random.RandomState(0))
    cells = colour.histogram(picture).reshape(N_CELLS, -1)[5:].reshape(4, 4, -1)
    assert cells[0, 0] @ cells[3, 3] < 0.02 * (cells[0, 0] @ cells[0, 3])
    assert colour.bandwidth == MIN_BANDWIDTH  # two colours, exactly


def test_a_grey_picture_has_no_colours_whatever_its_unit():
    grey = np.random.RandomState(0).randint(256, size=(40, 20)).astype(np.uint8)
    grey[0, 0] = 255
    points = points_of(make_picture(grey, None))
    assert points.shape == (32, 16, 3)
    assert not points[:, :, 1:].any()
    as_floats = points_of(make_picture(grey / np.float32(255), None))
    np.testing.assert_allclose(as_floats, points, atol=1e-4)
    three_channels = points_of(make_picture(np.repeat(grey[:, :, None], 3, axis=2), None))
    np.testing.assert_array_equal(three_channels, points)


# -- learning -----------------------------------------------------------------------------------------


def test_red_and_green_are_told_apart():
    train, test = tinted(40), tinted(40, seed=1)
    model = MidFeaClassifier(**FAST).fit(*train)
    assert model.colour == "auto" and model.settings_["colour"] > 0
    assert model.score(*test) == 1.0
    assert model.validation_.accuracy >= 0.95
    grey = MidFeaClassifier(**FAST, colour=None).fit(*train)
    assert grey.score(*test) < 0.8


def test_colours_that_say_nothing_are_left_out(surfaces):
    """Any tint on any kind of surface, and no tint at all."""
    images, labels = surfaces
    rng = np.random.RandomState(0)
    coloured = [(image[:, :, None] * rng.uniform(0.3, 1, size=3)).astype(np.uint8) for image in images]
    for given in (coloured, images):
        model = MidFeaClassifier(**FAST).fit(given, labels)
        assert model.settings_["colour"] is None and model.extractor_.colour is None
    one_class = MidFea(**FAST).fit(coloured)
    assert one_class.settings_["colour"] is None
    assert MidFeaRegressor(**FAST).fit(coloured, np.arange(36.0)).settings_["colour"] is None


@pytest.mark.parametrize("projection", ["random", "gaussian", None])
def test_the_chains_features_stay_as_they_are(few, projection):
    """The same chain with colours and without; features by their factors, still of unit length."""
    images, _ = few
    plain = MidFea(**SMALL, projection=projection).fit(images)
    model = MidFea(**SMALL, projection=projection, colour=0.6).fit(images)
    alone, both = plain.transform(images), model.transform(images)
    n = alone.shape[1]
    np.testing.assert_allclose(both[:, :n], 0.8 * alone, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(both[:, n:], axis=1), 0.6, rtol=1e-6)
    assert both.shape[1] == model.extractor_.n_features == len(model.get_feature_names_out())
    histograms = [
        model.extractor_.colour.histogram(p) for p in model.extractor_.pictures(Images(images))
    ]
    np.testing.assert_allclose(both[:, n:], 0.6 * np.stack(histograms), rtol=1e-6)
    maps = model.feature_maps(images[1])
    np.testing.assert_allclose(maps["features"], both[1], atol=1e-5)
    np.testing.assert_array_equal(maps["colour_histogram"], histograms[1])
    assert "64 colour words" in model._repr_html_()


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_engines_agree(few, engine):
    if engine == "torch":
        pytest.importorskip("torch")
    images, _ = few
    model = MidFea(**SMALL, colour=0.5).fit(images)
    other = copy(model).set_params(engine=engine)
    np.testing.assert_allclose(other.transform(images), model.transform(images), atol=1e-4)


def test_augmented_images_keep_their_colours():
    train, test = tinted(16), tinted(16, seed=1)
    settings = FAST | {"floor": 0.0, "partition": "pyramid", "colour": 0.3}
    model = MidFeaClassifier(**settings, augment=("shift", "light")).fit(*train)
    assert model.score(*test) == 1.0


@pytest.mark.parametrize("colour", [0, 1.5, -0.3, True, "yes", float("nan")])
def test_other_weights_are_refused(few, colour):
    with pytest.raises(ValueError, match='colour must be None, "auto", or the weight of the colours'):
        MidFea(**SMALL, colour=colour).fit(few[0])


def test_presets():
    assert MidFeaClassifier(preset="fast").colour == MidFeaClassifier(preset="best").colour == "auto"
    assert MidFeaClassifier().colour is MidFeaClassifier(preset="paper").colour is None


# -- what is made of a model --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coloured(few):
    return MidFeaClassifier(**SMALL, colour=0.5).fit(*few)


@pytest.mark.parametrize(
    "settings", [{}, {"projection": "pca"}, {"selectivity": NeuronSelectivity(5, random_state=0)}]
)
def test_explanations_add_up(few, coloured, settings):
    images, labels = few
    model = (
        MidFeaClassifier(**SMALL, colour=0.5, **settings).fit(images, labels) if settings else coloured
    )
    for image in (*images[:3], images[0][:, :, 0]):  # several shapes, and without colours
        found = adds_up(model, image, label=labels[0], n_words=20)
        assert found.colour_share != 0
        of_words = sum(word.contribution for word in found.words_for + found.words_against)
        assert of_words + found.colour_share == pytest.approx(found.evidence.sum(), abs=1e-6)
        np.testing.assert_allclose(found.maps["features"], found.features, atol=1e-5)


def test_evidence_lies_where_the_colour_is():
    """A red patch is what tells the classes apart; all else is equal."""
    rng = np.random.RandomState(0)
    y, images = np.arange(24) % 2, []
    for label in y:
        image = np.repeat(rng.randint(100, 150, size=(48, 48, 1)), 3, axis=2)
        if label:
            image[8:16, 28:40, 0] = 255
        images.append(image.astype(np.uint8))
    model = MidFeaClassifier(**SMALL, colour=0.999).fit(images, y)
    found = adds_up(model, images[1], label=1)
    assert found.colour_share == pytest.approx(found.evidence.sum(), rel=0.2)
    inside = found.evidence[6:18, 26:42].sum()
    assert inside > 0.6 * np.maximum(found.evidence, 0).sum()


def test_saved_and_loaded(few, coloured, tmp_path):
    images, _ = few
    coloured.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea")
    np.testing.assert_array_equal(again.predict_proba(images), coloured.predict_proba(images))
    assert again.colour == again.settings_["colour"] == 0.5


def test_onnx_gives_the_same(few, coloured):
    pytest.importorskip("onnxruntime")
    from test_export import assert_same, confident

    images, labels = few
    large = np.kron(images[0], np.ones((5, 7, 1), dtype=np.uint8))
    tiny = images[1][:12, :14]
    assert_same(confident(coloured.parts_), [*images, large, tiny, images[2][:, :, 0]])
    with_neurons = MidFeaClassifier(**SMALL, colour=0.3, selectivity=4, max_side=40).fit(images, labels)
    assert_same(confident(with_neurons.parts_), [*images[:4], large], atol=2e-4)
