"""The estimators keep scikit-learn's promises, and their own."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor
from midfea.estimators.presets import PRESETS
from midfea.parallel import linear_algebra_threads
from small import SMALL_PAPER as SMALL


@pytest.fixture(scope="module")
def classifier(surfaces):
    return MidFeaClassifier(**SMALL, projection=None).fit(*surfaces)


def test_features_are_what_the_contract_says(surfaces):
    model = MidFea(**SMALL).fit(surfaces[0])
    features = model.transform(surfaces[0])
    assert features.shape == (36, 100)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    assert model.filters_.shape == (9, 7, 7)
    assert model.codebook_.shape == (40, 144)
    assert list(model.get_feature_names_out())[:2] == ["midfea0", "midfea1"]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("projection", [None, "pca"])
def test_same_seed_same_features_whatever_the_threads(surfaces, engine, projection):
    settings = SMALL | {"engine": engine, "projection": projection, "n_components": 20}
    with linear_algebra_threads(1):
        one = MidFea(**settings, n_jobs=1).fit(surfaces[0])
    with linear_algebra_threads(2):
        two = MidFea(**settings, n_jobs=2).fit(surfaces[0])
    np.testing.assert_array_equal(one.filters_, two.filters_)
    np.testing.assert_array_equal(one.codebook_, two.codebook_)
    np.testing.assert_array_equal(one.transform(surfaces[0]), two.transform(surfaces[0]))
    other = MidFea(**{**settings, "random_state": 1}).fit(surfaces[0])
    assert not np.array_equal(one.filters_, other.filters_)


def test_stack_list_paths_grey_and_colour_agree(surfaces, tmp_path):
    from PIL import Image

    stack = surfaces[0][:12]
    model = MidFea(**SMALL).fit(stack)
    features = model.transform(stack)
    paths = [tmp_path / f"{i}.png" for i in range(12)]
    for path, image in zip(paths, stack, strict=True):
        Image.fromarray(image).save(path)
    forms = [list(stack), [str(p) for p in paths], paths, np.stack([stack] * 3, axis=-1)]
    objects = np.empty(12, dtype=object)
    objects[:] = list(stack)
    for form in (*forms, objects):
        np.testing.assert_array_equal(model.transform(form), features)
    np.testing.assert_array_equal(MidFea(**SMALL).fit(paths).filters_, model.filters_)
    scaled = model.transform(stack / 255.0)
    assert (scaled * features).sum(axis=1).min() > 0.99


def test_engines_agree_after_fitting(surfaces):
    model = MidFea(**SMALL, projection=None).fit(surfaces[0])
    features = model.transform(surfaces[0][:5])
    plain = model.set_params(engine="reference").transform(surfaces[0][:5])
    assert (np.abs(features - plain) > 1e-3).mean() < 0.002


@pytest.mark.parametrize("projection", ["random", "gaussian", "uniform", "pca", None])
@pytest.mark.parametrize("encoding", ["vq", "soft", "llc"])
def test_every_encoding_and_projection(mixed_images, projection, encoding):
    model = MidFea(**{**SMALL, "n_components": 5}, projection=projection, encoding=encoding)
    features = model.fit_transform(mixed_images)
    assert features.shape == (6, {None: 840}.get(projection, 5))
    assert np.isfinite(features).all()


def test_more_components_than_features_are_left_out(surfaces):
    model = MidFea(**{**SMALL, "n_components": 5000}).fit(surfaces[0])
    assert model.transform(surfaces[0][:1]).shape == (1, 840)


def test_feature_maps_hold_every_stage(surfaces):
    model = MidFea(**SMALL).fit(surfaces[0])
    maps = model.feature_maps(surfaces[0][3])
    shapes = {name: value.shape for name, value in maps.items()}
    assert shapes["soft_convolution"] == shapes["convolution"] == (64, 64, 9)
    assert shapes["max_pool_3d"] == (32, 32, 36)
    assert shapes["descriptors"] == (31, 31, 144)
    assert shapes["words"] == (31, 31)
    np.testing.assert_allclose(maps["features"], model.transform(surfaces[0][3:4])[0], atol=1e-4)
    renormalized = midfea.stages.normalize_maps(maps["thresholded"], 1e-6)
    np.testing.assert_allclose(renormalized, maps["soft_convolution"], atol=1e-6)


class TestPresets:
    def test_preset_sets_parameters_and_given_ones_win(self):
        model = MidFeaClassifier(preset="fast", window=2, pairs=True)
        assert (model.window, model.pairs, model.n_words) == (2, True, 500)
        same = clone(model)
        assert same.get_params() == model.get_params()
        model.set_params(preset="best", n_words=77)
        assert (model.n_filters, model.window, model.n_words) == (24, 4, 77)
        model.set_params(preset="paper")
        assert model.get_params() == MidFeaClassifier(preset="paper").get_params()

    def test_paper_is_the_default(self):
        default, paper = MidFea().get_params(), MidFea(preset="paper").get_params()
        assert default | {"preset": "paper"} == paper

    @pytest.mark.parametrize("preset", PRESETS)
    def test_each_preset_learns(self, surfaces, preset):
        settings = {"n_words": 60, "n_samples": 5000, "finetune": False}  # see test_finetune
        model = MidFeaClassifier(preset=preset, **settings, random_state=0)
        assert model.fit(*surfaces).validation_.accuracy > 0.6

    def test_unknown_preset(self):
        with pytest.raises(ValueError, match="preset must be one of None, 'paper', 'fast', 'best'"):
            MidFea(preset="magic").fit(np.zeros((1, 30, 30)))


class TestClassifier:
    def test_probabilities_agree_with_predictions(self, classifier, surfaces):
        chances = classifier.predict_proba(surfaces[0])
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        labels = classifier.classes_[chances.argmax(axis=1)]
        np.testing.assert_array_equal(labels, classifier.predict(surfaces[0]))
        assert classifier.score(*surfaces) == 1.0
        assert 0.5 < classifier.validation_.accuracy < 1.0

    def test_probabilities_are_calibrated(self, classifier, surfaces):
        scale, scores = classifier.head_.logit_scale, classifier.decision_function(surfaces[0])
        assert abs(np.log(scale)) > 0.1
        expected = softmax(scale * scores, axis=1)
        np.testing.assert_allclose(classifier.predict_proba(surfaces[0]), expected, atol=1e-6)

    def test_two_classes(self, surfaces):
        images, labels = surfaces
        two = labels != labels[0]
        model = MidFeaClassifier(**SMALL).fit(images[two], labels[two])
        assert model.decision_function(images[two]).shape == (24,)
        assert model.predict_proba(images[two]).shape == (24, 2)

    def test_c_is_chosen_on_training_data(self, surfaces):
        model = MidFeaClassifier(**SMALL, C="auto").fit(*surfaces)
        assert model.C_ in (0.1, 1.0, 10.0, 100.0)
        fixed = [MidFeaClassifier(**SMALL, C=c).fit(*surfaces) for c in (0.1, 1.0, 10.0, 100.0)]
        assert model.validation_.accuracy == max(m.validation_.accuracy for m in fixed)

    def test_a_class_with_one_image(self, surfaces):
        images, labels = surfaces[0][:20], surfaces[1][:20].astype("<U12")
        labels[0] = "lonely"
        model = MidFeaClassifier(**SMALL).fit(images, labels)
        assert model.predict(images[:1]) == ["lonely"]
        every_one = MidFeaClassifier(**SMALL).fit(images[:3], ["a", "b", "c"])
        assert np.isnan(every_one.validation_.accuracy)

    @pytest.mark.parametrize(
        "labels, message",
        [
            (["a"] * 36, "two classes or more"),
            (["a", "b"], "36 images but 2 labels"),
            (None, "labels are needed"),
            (np.linspace(0, 1, 36), "Unknown label type"),
        ],
    )
    def test_wrong_labels(self, surfaces, labels, message):
        with pytest.raises(ValueError, match=message):
            MidFeaClassifier(**SMALL).fit(surfaces[0], labels)


class TestRegressor:
    @pytest.mark.parametrize("regression", ["ridge", "svr"])
    def test_learns_a_number(self, regression):
        """The number of bars in an image, from 1 to 8."""
        rng = np.random.RandomState(0)
        counts = rng.randint(1, 9, 60)
        images = np.full((60, 48, 48), 90, dtype=np.uint8)
        for image, count in zip(images, counts, strict=True):
            for row in rng.choice(np.arange(4, 44, 4), count, replace=False):
                image[row : row + 2, 6:42] = 200
        model = MidFeaRegressor(**SMALL, projection=None, pooling="sum", regression=regression)
        model.fit(images[:40], counts[:40])
        assert model.score(images[40:], counts[40:]) > 0.7

    def test_wrong_numbers(self, surfaces):
        for y, message in [([1.0], "36 images but 1 numbers"), ([np.nan] * 36, "NaN"), (None, "needed")]:
            with pytest.raises(ValueError, match=message):
                MidFeaRegressor(**SMALL).fit(surfaces[0], y)


class TestInScikitLearn:
    def test_pipeline_grid_search_cross_validation(self, surfaces):
        images, labels = surfaces
        pipeline = make_pipeline(MidFea(**SMALL), LinearSVC(random_state=0))
        search = GridSearchCV(pipeline, {"midfea__n_words": [10, 40]}, cv=2).fit(images, labels)
        assert search.best_score_ > 0.5
        scores = cross_val_score(MidFeaClassifier(**SMALL), list(images), labels, cv=2, n_jobs=2)
        assert scores.mean() > 0.5

    def test_clone_and_pickle(self, classifier, surfaces):
        copy = pickle.loads(pickle.dumps(classifier))
        np.testing.assert_array_equal(
            copy.decision_function(surfaces[0]), classifier.decision_function(surfaces[0])
        )
        assert clone(classifier).get_params() == classifier.get_params()

    def test_repr_shows_what_was_set(self):
        assert repr(MidFea(n_words=5)) == "MidFea(n_words=5)"


@pytest.mark.parametrize(
    "parameter, value",
    [
        ("n_filters", 1),
        ("n_filters", 2.5),
        ("filter_size", 1),
        ("window", 0),
        ("n_words", 0),
        ("encoding", "fisher"),
        ("partition", "quadtree"),
        ("projection", "dct"),
        ("scales", ()),
        ("scales", (0,)),
        ("scales", (1e-9,)),
        ("pairs", 1),
        ("sharpness", -1),
        ("floor", -1),
        ("engine", "abacus"),
        ("pairs", "yes"),
        ("max_side", 0),
        ("n_neighbors", 0),
    ],
)
def test_wrong_parameters_are_named(surfaces, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        MidFea(**{**SMALL, parameter: value}).fit(surfaces[0])


class TestBadImages:
    def test_too_small(self, surfaces, tmp_path):
        model = MidFea(**SMALL).fit(surfaces[0])
        with pytest.raises(ValueError, match="image 1 has 3x3 pixels, at least 7x7"):
            model.transform([surfaces[0][0], np.zeros((3, 3))])

    def test_scales_below_one_need_larger_images(self, surfaces):
        model = MidFea(**SMALL, scales=(0.5, 0.25)).fit(surfaces[0])
        assert model.min_side == 14
        assert np.isfinite(model.transform([surfaces[0][0][:14, :14]])).all()
        with pytest.raises(ValueError, match="image 0 has 13x14 pixels, at least 14x14"):
            model.transform([surfaces[0][0][:13, :14]])

    def test_smallest_image_that_works(self, surfaces):
        model = MidFea(**SMALL, scales=(1.0, 0.5)).fit(surfaces[0])
        assert np.isfinite(model.transform([surfaces[0][0][:7, :7]])).all()

    def test_flat_image_is_zero_or_finite(self, surfaces):
        model = MidFea(**SMALL).fit(surfaces[0])
        assert np.isfinite(model.transform([np.full((40, 40), 7, dtype=np.uint8)])).all()

    def test_cells_of_fixed_size_need_images_of_one_size(self, surfaces):
        model = MidFea(**SMALL, partition={"size": 8, "step": 4}).fit(surfaces[0])
        with pytest.raises(ValueError, match="images of one size"):
            model.transform([surfaces[0][0][:40, :40]])

    def test_too_few_descriptors_for_the_words(self, surfaces):
        with pytest.raises(ValueError, match="n_words=1000 words cannot be learned from"):
            MidFea().fit(surfaces[0][:1, :20, :20])

    def test_large_images_are_reduced(self):
        image = np.random.RandomState(0).randint(0, 256, (400, 300)).astype(np.uint8)
        model = MidFea(**SMALL).fit([image])
        assert model.feature_maps(image)["image"].shape == (150, 112)
