"""Settings chosen by validation, and groups of images that are held out together."""

import numpy as np
import pytest

import midfea
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor
from midfea.engines import EngineSettings
from midfea.learning.choices import ChoiceSettings, Trials, sample_classes
from midfea.learning.network.head import CHANGE_IN_PLACE
from midfea.pictures.images import Images, Pictures
from small import FEW_STEPS, SMALL_FAST

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


def trials(images, y, groups=None, **rules):
    pictures = Pictures(Images(images), 150)
    weights = np.ones(len(np.unique(y)), dtype=np.float32)
    engine, settings = EngineSettings(), ChoiceSettings(**rules)
    return Trials(pictures, np.asarray(y), groups, engine, 2, 0, weights, settings)


def choose(images, y, groups=None, settings=SMALL, **rules):
    return trials(images, y, groups, **rules).choose(MidFeaClassifier(**settings).chain_settings())


@pytest.mark.parametrize("floors", [(0.0, 0.5), (0.5, 0.0)])
def test_validation_decides_in_both_orders(floors):
    assert choose(*faint_texture(), floors=floors).settings.floor == 0.0


def test_the_chosen_settings_are_the_models():
    images, y = faint_texture()
    model = MidFeaClassifier(**SMALL).fit(images, y)
    assert model.floor == "auto"
    assert model.settings_["floor"] == 0.0
    chosen = {name: model.settings_[name] for name in ("floor", "partition")}
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
    close, far = choose(*crosses(7, 3)), choose(*crosses(10, 5))
    assert close.settings.partition == (6, 6) and close.in_place
    assert not far.in_place
    easy = choose(*crosses(8, 2))  # all are correct with a pyramid, too
    assert (easy.settings.floor, easy.settings.partition) == (0.0, "overlapping pyramid")
    assert not easy.in_place


@pytest.mark.parametrize("in_place", [True, False])
def test_images_of_things_in_place_are_hardly_moved(monkeypatch, in_place):
    pytest.importorskip("torch")
    from midfea.learning.network import training

    augment, moves = training.augment, set()
    monkeypatch.setattr(training, "augment", lambda *given: moves.add(given[1].moves) or augment(*given))
    model = MidFeaClassifier(**SMALL, finetune=True, network=FEW_STEPS)
    model.fit(*(crosses(7, 3) if in_place else crosses(10, 5)))
    assert moves == {CHANGE_IN_PLACE if in_place else 1.0}


def test_without_classes_there_is_none(tmp_path):
    images, y = faint_texture(12)
    features = MidFea(**SMALL).fit(images)
    assert features.settings_["floor"] == 0 and features.settings_["partition"] == "overlapping pyramid"
    features.save(tmp_path / "features.midfea")
    assert midfea.load(tmp_path / "features.midfea").settings_["floor"] == 0
    assert MidFeaRegressor(**SMALL).fit(images, y).settings_["floor"] == 0
    with pytest.raises(ValueError, match=r'floor must be from 0 to 1e\+06, or "auto"'):
        MidFea(**SMALL | {"floor": "some"}).fit(images)


def test_groups_tell_of_new_groups():
    """The same noise in all images of a group: it gives known groups away, and not new ones."""
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(12), 4)
    y = groups % 2
    looks = rng.randint(256, size=(12, 40, 40))
    images = [
        np.clip(looks[g] + rng.randint(-20, 20, size=(40, 40)), 0, 255).astype(np.uint8) for g in groups
    ]
    model = MidFeaClassifier(**SMALL | {"floor": 0.0})
    assert model.fit(images, y).validation_.accuracy > 0.9
    assert model.fit(images, y, groups=groups).validation_.accuracy < 0.8
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(images, y, groups=groups[:-1])
    for given in (None, groups):
        chosen = choose(images, y, given, SMALL | {"floor": 0.0}).settings
        assert chosen.partition in ChoiceSettings().partitions and chosen.floor == 0.0


def test_duplicates_tell_nothing_of_new_images():
    """Noise with labels by chance, each image four times: only its duplicates could give it away."""
    rng = np.random.RandomState(0)
    which = np.tile(np.arange(24), 4)
    images = rng.randint(256, size=(24, 40, 40)).astype(np.uint8)[which]
    y = (np.arange(24) % 2)[which]
    model = MidFeaClassifier(**SMALL | {"floor": 0.0, "partition": "pyramid"})
    assert model.fit(images, y).validation_.accuracy < 0.8
    for groups in (np.arange(96), which // 2):
        assert model.fit(images, y, groups=groups).validation_.accuracy < 0.8


@pytest.mark.parametrize(("side", "scales"), [(60, (1.0,)), (140, (1.0, 0.5)), (400, (1.0, 0.5))])
def test_large_images_are_seen_twice(side, scales):
    image = np.random.RandomState(0).randint(256, size=(side, side // 2)).astype(np.uint8)
    model = MidFea(scales="auto", n_words=5, n_samples=500, projection=None, random_state=0)
    assert model.fit([image, image[::-1]]).settings_["scales"] == scales
    assert model.scales == "auto"


def test_chosen_with_as_many_images_of_a_class_as_there_are():
    rules = ChoiceSettings()
    y = np.repeat(np.arange(100), 19)
    sample = sample_classes(y, 0, rules)
    assert set(np.bincount(y[sample])) == {0, 19}
    assert rules.n_images <= len(sample) < rules.n_images + 19
    assert (sample == sample_classes(y, 0, rules)).all()
    assert set(sample) != set(sample_classes(y, 1, rules))
    two = np.repeat([0, 1], 2000)
    assert set(np.bincount(two[sample_classes(two, 0, rules)])) == {rules.n_images // 2}
    assert (sample_classes(np.repeat([0, 1], [3, 1]), 0, rules) == np.arange(4)).all()


@pytest.mark.parametrize(("gain", "n_words"), [(-1e9, 60), (1.0, 30)])
def test_more_words_if_validation_favours_them(gain, n_words):
    """The extractor is the one that has so many words from the start."""
    images, y = crosses(7, 3)
    given = SMALL | {"floor": 0.0, "partition": (6, 6)}
    settings = [MidFeaClassifier(**given | {"n_words": n}).chain_settings() for n in ("auto", n_words)]
    rules = {"word_counts": (30, 60), "min_relative_gain": gain}
    chosen, same = (
        trials(images, y, **rules).learn(each, np.random.RandomState(0)) for each in settings
    )
    assert len(chosen[0].chain.words) == n_words
    np.testing.assert_array_equal(chosen[1], same[1])


def test_more_words_must_fit():
    images, y = crosses(7, 3)  # 48 images of 60x60 pixels

    def can_try(n_words, n_samples=10**6, **rules):
        return trials(images, y, **rules).can_try(n_words, 36, n_samples)

    assert can_try(4000, 4000) and not can_try(4001, 4000)
    n_descriptors = 48 * 60 * 60 // 32
    assert can_try(n_descriptors) and not can_try(n_descriptors + 1)
    for bound, n in (("max_features", 48), ("max_weights", 4)):
        limit = {bound: n * 36 * 40}
        assert can_try(40, **limit) and not can_try(41, **limit)
    assert not can_try(40, max_side_for_more_words=60)


@pytest.mark.parametrize(("n", "side"), [(1000, 24), (350, 40), (170, 56)])
def test_words_that_may_be_tried_can_be_learned(n, side):
    """Descriptors are enough, however many of them lie at borders."""
    images = list(np.random.RandomState(0).randint(256, size=(n, side, side)).astype(np.uint8))
    tried = trials(images, np.arange(n) % 2)
    n_words = next(w for w in (16384, 8192) if tried.can_try(w, 1, 100_000))
    small = MidFea(n_filters=2, pairs=False, window=4, projection=None, random_state=0)
    with pytest.raises(ValueError, match=f"{10**6} words cannot be learned from (\\d+) ") as error:
        small.set_params(n_words=10**6).fit(images)
    assert int(str(error.value).split(" from ")[1].split()[0]) >= n_words


@pytest.mark.parametrize("n_words", ["cv", 0, 2.5, None])
def test_words_are_a_number_or_auto(n_words):
    with pytest.raises(ValueError, match="n_words must be an integer from 1 to"):
        MidFea(n_words=n_words).fit(crosses(7, 3)[0])


def test_auto_takes_fewer_words_from_a_few_small_images():
    """There are 13 x 13 descriptors in each."""
    images = np.random.RandomState(0).randint(256, size=(10, 32, 32)).astype(np.uint8)
    y = np.arange(10) % 2
    settings = MidFeaClassifier(preset="best").chain_settings()
    tried = trials(list(images), y)
    assert tried.possible_words(settings, 1690) == 1690
    assert tried.possible_words(settings, 1691) == 422
    model = MidFeaClassifier(preset="best", finetune=False, random_state=0).fit(images, y)
    assert len(model.codebook_) == 422
