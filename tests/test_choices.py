"""What held-out images choose, and groups of images that are held out together."""

import numpy as np
import pytest

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor
from midfea.estimators import choices, finetuned, presets
from midfea.learning import svm as linear_svm
from midfea.pictures.images import Images
from small import SMALL_FAST

SMALL = SMALL_FAST | {"n_samples": 4000}


def faint_texture(n=48):
    """One strong edge that says nothing, and stripes below half the root mean square that do."""
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    images = []
    for upright in y:
        image = np.full((60, 60), 60, dtype=np.uint8)
        image[:, rng.randint(25, 35) :] = 255
        stripes = (np.arange(60) // 3 % 2 * 2).astype(np.uint8)
        image[:, :20] += stripes[None, :20] if upright else stripes[:, None]
        images.append(image)
    return images, y


@pytest.mark.parametrize("floors", [(0.0, 0.5), (0.5, 0.0)])
def test_held_out_images_decide(monkeypatch, floors):
    monkeypatch.setitem(choices.CHOICES, "floor", floors)  # in both orders: no tie
    images, y = faint_texture()
    model = MidFeaClassifier(**SMALL).fit(images, y)
    assert model.floor == "cv"
    assert model.settings_["floor"] == 0.0
    chosen = {name: model.settings_[name] for name in choices.CHOICES}
    same = MidFeaClassifier(**SMALL, **chosen).fit(images, y)
    np.testing.assert_array_equal(model.decision_function(images), same.decision_function(images))


def crosses(apart, spread, n=48):
    """Four classes, told by where in the noise a cross is, more or less."""
    rng = np.random.RandomState(0)
    y = np.arange(n) % 4
    images = rng.randint(60, size=(n, 60, 60)).astype(np.uint8)
    for image, label in zip(images, y, strict=True):
        down, right = 20 + apart * np.array(divmod(label, 2)) + rng.randint(-spread, spread + 1, size=2)
        image[down : down + 9, right + 3 : right + 6] = 255
        image[down + 3 : down + 6, right : right + 9] = 255
    return list(images), y


def test_things_in_place():
    """A grid is far better where small differences of places count, no better where a pyramid does."""
    model = MidFeaClassifier(**SMALL)
    found = [choices.choose(model, Images(images), y) for images, y in (crosses(7, 3), crosses(10, 5))]
    assert found[0].settings["partition"] == (6, 6) and found[0].in_place
    assert not found[1].in_place
    images, y = crosses(8, 2)  # all are told, by a pyramid too
    assert choices.choose(model, Images(images), y) == (
        {"floor": 0.0, "partition": "overlapping pyramid"},
        False,
    )


@pytest.mark.parametrize("in_place", [True, False])
def test_copies_of_things_in_place_are_hardly_moved(few_steps, monkeypatch, in_place):
    from midfea.learning.network import training as finetune

    augmented, moves = finetune.augmented, set()
    monkeypatch.setattr(finetune, "augmented", lambda *given: moves.add(given[3]) or augmented(*given))
    model = MidFeaClassifier(**SMALL, finetune=True)
    model.fit(*(crosses(7, 3) if in_place else crosses(10, 5)))
    assert moves == {finetuned.MOVES_IN_PLACE if in_place else 1.0}


def test_without_classes_there_is_none(tmp_path):
    images, y = faint_texture(12)
    features = MidFea(**SMALL).fit(images)
    assert features.settings_["floor"] == 0 and features.settings_["partition"] == "overlapping pyramid"
    features.save(tmp_path / "features.midfea")
    assert midfea.load(tmp_path / "features.midfea").settings_["floor"] == 0
    assert MidFeaRegressor(**SMALL).fit(images, y).settings_["floor"] == 0
    with pytest.raises(ValueError, match='floor must be zero or more, or "cv"'):
        MidFea(**SMALL | {"floor": "some"}).fit(images)


def test_groups_are_held_out_whole():
    y = np.arange(60) % 3
    groups = np.repeat(np.arange(20), 3)
    found = linear_svm.folds(y, 4, 0, groups)
    assert len(found) == 4
    for train, test in found:
        assert not set(groups[train]) & set(groups[test])
    assert sorted(np.concatenate([test for _, test in found])) == list(range(60))
    assert linear_svm.folds(y, 4, 0, np.zeros(60)) == []


def test_groups_tell_of_new_groups():
    """The same noise in all images of a group: known groups are told by it, new ones are not."""
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(12), 4)
    y = groups % 2
    looks = rng.randint(256, size=(12, 40, 40))
    images = [
        np.clip(looks[g] + rng.randint(-20, 20, size=(40, 40)), 0, 255).astype(np.uint8) for g in groups
    ]
    model = MidFeaClassifier(**SMALL | {"floor": 0.0})
    assert model.fit(images, y).cv_accuracy_ > 0.9
    assert model.fit(images, y, groups=groups).cv_accuracy_ < 0.8
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(images, y, groups=groups[:-1])
    for chosen in (choices.choose(model, Images(images), y, g) for g in (None, groups)):
        assert chosen.settings["partition"] in choices.CHOICES["partition"]
        assert "floor" not in chosen.settings


@pytest.mark.parametrize(("side", "scales"), [(60, (1.0,)), (140, (1.0, 0.5)), (400, (1.0, 0.5))])
def test_large_images_are_seen_twice(side, scales):
    image = np.random.RandomState(0).randint(256, size=(side, side // 2)).astype(np.uint8)
    model = MidFea(scales="auto", n_words=5, n_samples=500, projection=None, random_state=0)
    assert model.fit([image, image[::-1]]).settings_["scales"] == scales
    assert model.scales == "auto"


def test_chosen_with_as_many_images_of_a_class_as_there_are():
    y = np.repeat(np.arange(100), 19)
    some = choices.drawn(y, seed=0)
    counts = np.bincount(y[some])
    assert set(counts) == {0, 19}
    assert choices.N_IMAGES <= len(some) < choices.N_IMAGES + 19
    assert (some == choices.drawn(y, seed=0)).all() and set(some) != set(choices.drawn(y, seed=1))
    two = np.repeat([0, 1], 2000)
    assert set(np.bincount(two[choices.drawn(two, seed=0)])) == {choices.N_IMAGES // 2}
    few = np.repeat([0, 1], [3, 1])
    assert (choices.drawn(few, seed=0) == np.arange(4)).all()


@pytest.mark.parametrize(("clearly", "n_words"), [(1e9, 60), (0.0, 30)])
def test_more_words_if_held_out_images_say_so(monkeypatch, clearly, n_words):
    """The model is the one that has so many words from the start."""
    monkeypatch.setattr(presets, "WORDS", (30, 60))
    monkeypatch.setattr(choices, "WORDS", (30, 60))
    images, y = crosses(7, 3)
    settings = SMALL | {"floor": 0.0, "partition": (6, 6), "finetune": False}
    monkeypatch.setattr(choices, "CLEARLY", clearly)
    model = MidFeaClassifier(**settings | {"n_words": "cv"}).fit(images, y)
    assert model.n_words == "cv" and model.settings_["n_words"] == len(model.codebook_) == n_words
    same = MidFeaClassifier(**settings | {"n_words": n_words}).fit(images, y)
    np.testing.assert_array_equal(model.decision_function(images), same.decision_function(images))


def test_more_words_must_be_affordable(monkeypatch):
    images, y = crosses(7, 3)  # 48 images of 60x60 pixels
    model = MidFeaClassifier(**SMALL, partition=(6, 6), floor=0.0).fit(images, y)

    def affords(n_words):
        return choices.affords(n_words, model, Images(images), y)

    assert affords(4000) and not affords(4001)  # n_samples
    model.n_samples = 10**6
    assert affords(48 * 60 * 60 // 32) and not affords(48 * 60 * 60 // 32 + 1)
    for bound, n in (("MOST_FEATURES", 48), ("MOST_WEIGHTS", 4)):
        with monkeypatch.context() as patched:
            patched.setattr(choices, bound, n * 36 * 40)
            assert affords(40) and not affords(41)
    monkeypatch.setattr(choices, "SMALL", 60)
    assert not affords(40)


@pytest.mark.parametrize(("n", "side"), [(1000, 24), (350, 40), (170, 56)])
def test_affordable_words_can_be_learned(n, side):
    """Descriptors are enough, however many of them lie at borders."""
    images = list(np.random.RandomState(0).randint(256, size=(n, side, side)).astype(np.uint8))
    model = MidFeaClassifier(
        preset="best", finetune=False, n_words=20, n_samples=100_000, random_state=0
    )
    model.n_cells_ = 1
    n_words = next(
        w for w in (16384, 8192) if choices.affords(w, model, Images(images), np.arange(n) % 2)
    )
    small = MidFea(n_filters=2, pairs=False, window=4, projection=None, random_state=0)
    with pytest.raises(ValueError, match=f"{10**6} words cannot be learned from (\\d+) ") as error:
        small.set_params(n_words=10**6).fit(images)
    assert int(str(error.value).split(" from ")[1].split()[0]) >= n_words


@pytest.mark.parametrize("n_words", ["auto", 0, 2.5, None])
def test_words_are_a_number_or_chosen(n_words):
    with pytest.raises(ValueError, match='n_words must be an integer of 1 or more, or "cv"'):
        MidFea(n_words=n_words).fit(crosses(7, 3)[0])
