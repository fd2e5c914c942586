"""NBNN equals its definition; so does SVM-KNN, which with all neighbours is one SVM."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from midfea.baselines.dense_sift import dense_sift
from midfea.baselines.inputs import grey_images
from midfea.baselines.nbnn import NBNN
from midfea.datasets import load_surfaces
from midfea.engines.cpu.nearest_square import MAX_DIM, nearest_squares

WEIGHT = 1.5
DRAWN = load_surfaces(n_per_class=4, size=56, random_state=1)
TRAIN, TEST = np.arange(len(DRAWN.images)) % 4 < 3, np.arange(len(DRAWN.images)) % 4 == 3


@pytest.mark.parametrize(("n", "m", "dim"), [(1, 1, 1), (5, 70, 3), (9, 129, 130), (6, 64, MAX_DIM)])
def test_nearest_squares_are_exact(n, m, dim):
    rng = np.random.RandomState(m)
    points, rows = (rng.randint(256, size=(k, dim)).astype(np.uint8) for k in (n, m))
    points[0], rows[0] = 255, 254  # the largest products
    expected = np.square(points[:, None].astype(int) - rows).sum(axis=2).min(axis=1)
    np.testing.assert_array_equal(nearest_squares(points, rows), expected)


def test_the_largest_distance_between_bytes_is_exact():
    black, white = np.zeros((1, MAX_DIM), np.uint8), np.full((1, MAX_DIM), 255, np.uint8)
    assert nearest_squares(black, white) == nearest_squares(white, black) == MAX_DIM * 255**2


@pytest.mark.parametrize("shapes", [((2, 3), (4, 5)), ((2, 3), (0, 3)), ((2, 300), (2, 300))])
def test_nearest_squares_refuse_other_shapes(shapes):
    with pytest.raises(ValueError, match="got"):
        nearest_squares(*(np.zeros(shape, np.uint8) for shape in shapes))


def plain_nbnn(train, y, test, classes):
    """NBNN's definition in float64, on descriptors with their weighted places, not rounded."""

    def describe(image):
        descriptors, places = dense_sift(image, 6, 16)
        return np.hstack([descriptors, WEIGHT * places / np.array(image.shape)])

    known = [(label, describe(image)) for label, image in zip(y, grey_images(train), strict=True)]
    sums = np.zeros((len(test), len(classes)))
    for i, image in enumerate(grey_images(test)):
        for q in describe(image):
            for c, label in enumerate(classes):
                sums[i, c] += min(
                    np.square(q - points).sum(axis=1).min() for own, points in known if own == label
                )
    return sums


@pytest.fixture(scope="module")
def nbnn():
    images = [image for image, used in zip(DRAWN.images, TRAIN, strict=True) if used]
    return NBNN(position_weight=WEIGHT, n_jobs=1).fit(images, DRAWN.target[TRAIN])


def test_nbnn_equals_its_definition(nbnn):
    train = [DRAWN.images[i] for i in np.flatnonzero(TRAIN)]
    test = [DRAWN.images[i] for i in np.flatnonzero(TEST)[:5]]
    plain = plain_nbnn(train, DRAWN.target[TRAIN], test, nbnn.classes_)
    distances = nbnn.distances(test)
    np.testing.assert_allclose(distances, plain, rtol=0.01)  # descriptors are kept as bytes
    np.testing.assert_array_equal(nbnn.predict(test), nbnn.classes_[plain.argmin(axis=1)])
    np.testing.assert_array_equal(nbnn.decision_function(test), -distances)


def test_nbnn_sums_over_its_bytes_exactly(nbnn):
    image = DRAWN.images[int(np.flatnonzero(TEST)[0])]
    descriptors, places = dense_sift(grey_images([image])[0], 6, 16)
    values = np.hstack([descriptors, np.float32(WEIGHT) * places / np.float32(56)])
    own = np.rint(values / np.float32(WEIGHT / 255)).astype(int)
    sums = [
        np.square(own[:, None] - rows.astype(int)).sum(axis=2).min(axis=1).sum()
        for rows in nbnn.descriptors_
    ]
    np.testing.assert_allclose(nbnn.distances([image])[0], np.array(sums) * (WEIGHT / 255) ** 2)


def test_nbnn_is_the_same_for_any_number_of_threads_and_after_storing(nbnn):
    test = [DRAWN.images[i] for i in np.flatnonzero(TEST)]
    distances = nbnn.distances(test)
    train = [DRAWN.images[i] for i in np.flatnonzero(TRAIN)]
    other = clone(nbnn).set_params(n_jobs=3).fit(train, DRAWN.target[TRAIN])
    np.testing.assert_array_equal(other.distances(test), distances)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(nbnn)).distances(test), distances)


def test_nbnn_tells_places_apart_only_if_they_have_weight():
    """The same pattern up left and down right: the same descriptors at other places."""
    images = [np.zeros((64, 64), np.uint8) for _ in range(2)]
    pattern = np.random.RandomState(0).randint(256, size=(8, 8))
    images[0][20:28, 20:28] = images[1][36:44, 36:44] = pattern
    models = [NBNN(step=1, position_weight=w).fit(images, ["first", "second"]) for w in (0.0, 1.0)]
    placeless, placed = (model.decision_function(images) for model in models)
    np.testing.assert_array_equal(placeless, [0, 0])
    assert placed[0] < 0 < placed[1]


def test_nbnn_takes_several_patch_sizes_and_reduces_images():
    model = NBNN(patch_sizes=(16, 24), step=8, max_side=40, n_jobs=1).fit(DRAWN.images[:8], [0, 1] * 4)
    assert sum(map(len, model.descriptors_)) == 8 * (4 * 4 + 3 * 3)
    assert model.descriptors_[0].shape[1] == 130


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"memory_limit": 1000}, MemoryError, "memory_limit"),
        ({"time_limit": 0}, TimeoutError, "time_limit"),
        ({"patch_sizes": ()}, ValueError, "patch_sizes is empty"),
        ({"position_weight": -1}, ValueError, "position_weight"),
    ],
)
def test_nbnn_says_what_is_wrong(settings, error, words):
    with pytest.raises(error, match=words):
        NBNN(**settings).fit(DRAWN.images[:4], [0, 1, 0, 1])


@pytest.mark.parametrize(("y", "words"), [([0, 1], "4 images, but 2 labels"), ([1] * 4, "two classes")])
def test_labels_are_checked(y, words):
    with pytest.raises(ValueError, match=words):
        NBNN().fit(DRAWN.images[:4], y)
