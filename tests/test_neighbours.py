"""NBNN equals its definition; so does SVM-KNN, which with all neighbours is one SVM."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from midfea.baselines.dense_sift import dense_sift
from midfea.baselines.local_features import grey_images
from midfea.baselines.nbnn import NBNN
from midfea.baselines.svm_knn import METRICS, SVMKNN, neighbour_kernel
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


def test_patches_that_do_not_fit_are_left_out():
    images = [image[:20] for image in DRAWN.images[:2]]
    one, both = (NBNN(patch_sizes=sizes, n_jobs=1).fit(images, [0, 1]) for sizes in ((16,), (16, 24)))
    np.testing.assert_array_equal(one.descriptors_[0], both.descriptors_[0])
    with pytest.raises(ValueError, match="20x56 pixels, at least 24x24 are needed"):
        NBNN(patch_sizes=(24, 32)).fit(images, [0, 1])


@pytest.mark.parametrize(("y", "words"), [([0, 1], "4 images, but 2 labels"), ([1] * 4, "two classes")])
def test_labels_are_checked(y, words):
    with pytest.raises(ValueError, match=words):
        NBNN().fit(DRAWN.images[:4], y)


X, Y = make_blobs(160, n_features=6, centers=4, cluster_std=4.0, random_state=0)
KNOWN, NEW = slice(0, 120), slice(120, None)


def plain_svm_knn(q, samples, y, k, C):
    """Its definition for Euclidean distances: a linear SVM on the neighbours of one new sample."""
    near = np.argsort(np.square(samples - q).sum(axis=1))[:k]
    if len(set(y[near])) == 1:
        return y[near[0]]
    return SVC(kernel="linear", C=C).fit(samples[near], y[near]).predict(q[None])[0]


@pytest.mark.parametrize("k", [1, 5, 30])
def test_svm_knn_equals_its_definition(k):
    model = SVMKNN(k, n_jobs=1).fit(X[KNOWN], Y[KNOWN])
    plain = [plain_svm_knn(q, X[KNOWN], Y[KNOWN], k, model.C / model.scale_) for q in X[NEW]]
    np.testing.assert_array_equal(model.predict(X[NEW]), plain)


def test_svm_knn_with_all_neighbours_is_one_svm():
    model = SVMKNN(120, n_jobs=1).fit(X[KNOWN], Y[KNOWN])
    svm = SVC(kernel="linear", C=model.C / model.scale_).fit(X[KNOWN], Y[KNOWN])
    np.testing.assert_array_equal(model.predict(X[NEW]), svm.predict(X[NEW]))


@pytest.mark.parametrize("name", METRICS)
def test_kernels_of_named_metrics_give_back_the_distances(name):
    values = np.abs(X[:30])
    between = METRICS[name](values, values)
    kernel = neighbour_kernel(between[0], between)
    diagonal = np.diagonal(kernel)
    np.testing.assert_allclose(diagonal[:, None] + diagonal - 2 * kernel, between, atol=1e-9)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-9
    np.testing.assert_allclose(kernel[0], 0, atol=1e-9)  # the origin


def test_chi2_is_its_formula():
    X, Y = np.array([[1.0, 3.0, 0.0]]), np.array([[2.0, 0.0, 0.0], [1.0, 3.0, 0.0]])
    np.testing.assert_allclose(METRICS["chi2"](X, Y), [[1 / 3 + 9 / 3, 0]])
    rng = np.random.RandomState(0)
    X, Y = (np.maximum(rng.normal(size=(n, 40)), 0).astype(np.float32) for n in (5, 7))
    np.testing.assert_allclose(METRICS["chi2"](X, Y), -additive_chi2_kernel(X, Y), rtol=1e-5)


def test_a_kernel_of_other_distances_is_shifted():
    """Distances that no points have: all off the diagonal of the kernel stays, the rest moves up."""
    rng = np.random.RandomState(0)
    between = np.square(rng.rand(8, 8) + 1)
    between = between + between.T
    np.fill_diagonal(between, 0)
    from_origin = rng.rand(8)
    plain = (from_origin[:, None] + from_origin - between) / 2
    assert np.linalg.eigvalsh(plain)[0] < -0.1
    kernel = neighbour_kernel(from_origin, between)
    np.testing.assert_allclose(kernel - plain, (kernel - plain)[0, 0] * np.eye(8), atol=1e-12)
    assert abs(np.linalg.eigvalsh(kernel)[0]) < 1e-9


def test_svm_knn_takes_a_function_as_metric():
    given = SVMKNN(9, METRICS["cosine"], n_jobs=1).fit(X[KNOWN], Y[KNOWN])
    named = SVMKNN(9, "cosine", n_jobs=1).fit(X[KNOWN], Y[KNOWN])
    np.testing.assert_array_equal(given.predict(X[NEW]), named.predict(X[NEW]))


def test_the_number_of_neighbours_is_the_best_in_leave_one_out():
    model = SVMKNN(n_jobs=1).fit(X[KNOWN], Y[KNOWN])

    def correct(k):
        parts = [np.delete(np.arange(120), i) for i in range(120)]
        answers = (
            plain_svm_knn(X[i], X[o], Y[o], k, model.C / model.scale_) for i, o in enumerate(parts)
        )
        return sum(answer == Y[i] for i, answer in enumerate(answers))

    counts = {k: correct(k) for k in (1, 3, 10, 30, 100)}
    assert model.n_neighbors_ == max(counts, key=counts.get)


def test_samples_of_one_group_do_not_validate_each_other():
    """Pairs of equal samples with labels by chance: without groups one neighbour is always correct."""
    rng = np.random.RandomState(0)
    pairs = np.repeat(rng.rand(60, 3), 2, axis=0)
    labels, groups = np.repeat(rng.randint(2, size=60), 2), np.repeat(np.arange(60), 2)
    labels[:60] = 1  # most are of the second class: many neighbours say so
    assert SVMKNN(random_state=0).fit(pairs, labels).n_neighbors_ == 1
    assert SVMKNN(random_state=0).fit(pairs, labels, groups).n_neighbors_ > 1


def test_svm_knn_is_the_same_for_any_number_of_threads_and_after_storing():
    model = SVMKNN(15, n_jobs=1).fit(X[KNOWN], Y[KNOWN])
    predicted = model.predict(X[NEW])
    threads = clone(model).set_params(n_jobs=3).fit(X[KNOWN], Y[KNOWN])
    np.testing.assert_array_equal(threads.predict(X[NEW]), predicted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X[NEW]), predicted)


def test_svm_knn_in_a_grid_search():
    search = GridSearchCV(SVMKNN(n_jobs=1), {"n_neighbors": [1, 15], "C": [0.1, 10.0]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.6


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"n_neighbors": 121}, ValueError, "n_neighbors=121"),
        ({"metric": "chi"}, ValueError, "metric"),
        ({"metric": "chi2"}, ValueError, "needs values that are not negative"),
        ({"memory_limit": 1000}, MemoryError, "memory_limit"),
        ({"time_limit": 0}, TimeoutError, "time_limit"),
    ],
)
def test_svm_knn_says_what_is_wrong(settings, error, words):
    with pytest.raises(error, match=words):
        SVMKNN(**settings).fit(X[KNOWN], Y[KNOWN])


@parametrize_with_checks([SVMKNN(n_neighbors=5, n_jobs=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
