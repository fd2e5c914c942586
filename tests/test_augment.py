"""Augmented images, and classifiers that learn from them too."""

import numpy as np
import pytest

import midfea
from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.learning.folds import make_folds, split
from midfea.learning.head import validation_scores
from midfea.learning.svm import fit_linear_svm
from midfea.pictures.augmentation import KINDS, augmented_images, moved


@pytest.fixture(scope="module")
def surfaces():
    return load_surfaces(n_per_class=8, size=64, random_state=0)


def test_moved_by_whole_pixels():
    image = np.random.RandomState(0).randint(256, size=(20, 32)).astype(np.uint8)
    np.testing.assert_array_equal(moved(image, (0, 0), 1.0, 0.0), image)
    np.testing.assert_array_equal(moved(image, (2 / 32, 0), 1.0, 0.0)[:, 2:], image[:, :-2])
    np.testing.assert_array_equal(moved(image, (0, -3 / 20), 1.0, 0.0)[:-3], image[3:])
    corner = moved(image, (2 / 32, 0), 1.0, 0.0)[:, :2]  # mirrored at the border
    np.testing.assert_array_equal(corner, image[:, 1::-1])


def test_enlarged_about_the_middle():
    image = np.zeros((40, 60), dtype=np.uint8)
    image[15:25, 25:35] = 200
    twice = moved(image, (0, 0), 2.0, 0.0)
    assert (twice[12:28, 22:38] == 200).all()
    assert not twice[:8].any() and not twice[:, :18].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_augmented_images_keep_shape_and_kind_of_pixels(kind, dtype):
    image = np.random.RandomState(0).randint(256, size=(30, 21)).astype(dtype)
    made = augmented_images(image, (kind,), 3, np.random.RandomState(1))
    again = augmented_images(image, (kind,), 3, np.random.RandomState(1))
    assert len(made) == 3
    for copy, same in zip(made, again, strict=True):
        assert copy.shape == image.shape and copy.dtype == dtype
        np.testing.assert_array_equal(copy, same)
    assert (made[0] != image).any()


def test_augmented_images_of_what_is_held_out_are_not_learned_from():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 40)).astype(np.float32) + y[:, None]
    both = np.concatenate([x, x + 0.1 * rng.normal(size=x.shape).astype(np.float32)])
    folds = make_folds(y, 3, 0)
    found = validation_scores(both, y, (1.0,), folds)[0]
    for train, test in (split(folds, fold) for fold in range(3)):
        rows = np.concatenate([train, train + 60])
        weights, intercepts = fit_linear_svm(both[rows], np.tile(y, 2)[rows], 1.0)
        np.testing.assert_allclose(found[test], x[test] @ weights + intercepts, atol=2e-2)


@pytest.mark.parametrize("selectivity", [None, 6])
def test_classifier_with_augmented_images(surfaces, tmp_path, selectivity):
    plain = MidFeaClassifier(preset="fast", floor=0.5, n_words=30, random_state=0)
    model = MidFeaClassifier(
        preset="fast", floor=0.5, n_words=30, random_state=0, augment=("shift", "rotate"),
        selectivity=selectivity, keep_features=True,
    )  # fmt: skip
    model.fit(surfaces.images, surfaces.target)
    plain.fit(surfaces.images, surfaces.target)
    np.testing.assert_array_equal(model.codebook_, plain.codebook_)  # only the classifier differs
    assert selectivity or np.abs(model.coef_ - plain.coef_).max() > 1e-3
    assert model.training_features_.shape[0] == len(surfaces.images)
    assert len(model.validation_) == len(surfaces.images)
    model.save(tmp_path / "model.midfea")
    loaded = midfea.load(tmp_path / "model.midfea")
    assert loaded.augment == ("shift", "rotate")
    np.testing.assert_allclose(
        loaded.predict_proba(surfaces.images), model.predict_proba(surfaces.images), atol=1e-6
    )


def test_kinds_are_chosen_by_what_they_do_to_the_classes():
    """Things that face left and right: a mirrored copy of one is the other."""
    rng = np.random.RandomState(0)
    images, y = [], np.arange(40) % 2
    for side in y:
        image = rng.randint(90, 110, size=(48, 48)).astype(np.uint8)
        row, column = rng.randint(8, 24, size=2)
        image[row : row + 12, column : column + 3] = 200
        image[row : row + 3, column : column + 12] = 200
        images.append(image[:, ::-1] if side else image)
    settings = {"preset": "fast", "floor": 0.5, "n_words": 20, "random_state": 0}
    chosen = MidFeaClassifier(**settings, augment="auto").fit(images, y).settings_["augment"]
    assert "mirror" not in chosen
    assert set(chosen) <= set(KINDS)


def test_unknown_kinds_are_refused(surfaces):
    with pytest.raises(ValueError, match=r"augment is None.*got 'turn'"):
        MidFeaClassifier(augment=("shift", "turn")).fit(surfaces.images, surfaces.target)
