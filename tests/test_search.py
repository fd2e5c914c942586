"""The screened search finds what comparing with every word finds."""

import numpy as np
import pytest

from midfea.datasets import load_surfaces
from midfea.engines import Projection
from midfea.engines.cpu import kernels
from midfea.engines.cpu.engine import CpuChain
from midfea.engines.cpu.search import WordIndex
from midfea.stages.low_level import convolve, unit_length
from midfea.stages.projection import projection_matrix
from test_engines import make_chain


def distances(points, words):
    points, words = points.astype(float), words.astype(float)
    return ((points[:, None] - words) ** 2).sum(axis=-1)


def assert_nearest(points, words, k):
    """The k smallest distances in order, k different words; ties within float32's rounding aside."""
    found = WordIndex(words).nearest(points, k)
    assert found.shape == (len(points), k)
    assert found.dtype == np.int32
    all_distances = distances(points, words)
    mine = np.take_along_axis(all_distances, found.astype(int), axis=1)
    scale = max(np.square(words).sum(axis=1).max(), np.square(points).sum(axis=1).max())
    np.testing.assert_allclose(mine, np.sort(all_distances, axis=1)[:, :k], atol=2e-6 * scale)
    assert all(len(set(row)) == k for row in found.tolist())


SIZES = [  # points, dimensions, words, k: whole and broken vectors, panels and blocks of points
    (1, 3, 5, 5),
    (3, 20, 7, 1),
    (50, 180, 130, 5),
    (200, 36, 64, 3),
    (77, 5, 300, 8),
    (9, 144, 1, 1),
    (40, 33, 200, 70),  # more than the words of one panel
    (120, 144, 4200, 2),  # more panels than one mask holds
    (60, 400, 500, 1),  # several blocks of directions
]


@pytest.mark.parametrize(("n", "dim", "n_words", "k"), SIZES)
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_same_as_brute_force(n, dim, n_words, k, scale):
    rng = np.random.RandomState(0)
    points = scale * rng.rand(n, dim).astype(np.float32)
    near = points[rng.randint(n, size=n_words)]
    words = (near + scale * rng.normal(0, 0.1, (n_words, dim))).astype(np.float32)
    assert_nearest(points, words, k)


def test_points_far_outside_the_words():
    """Coordinates beyond what the whole numbers hold: slower, and still right."""
    rng = np.random.RandomState(1)
    words = rng.normal(size=(150, 60)).astype(np.float32)
    points = 100 * rng.normal(size=(40, 60)).astype(np.float32)
    assert_nearest(points, words, 3)


def test_words_that_are_hardly_apart():
    """Nearer to each other than the whole numbers of the bounds can tell."""
    rng = np.random.RandomState(4)
    base = unit_length(rng.rand(1, 144).astype(np.float32))
    words = (base + 3e-4 * rng.normal(size=(500, 144))).astype(np.float32)
    points = (base + 0.1 * rng.normal(size=(200, 144))).astype(np.float32)
    assert_nearest(points, words, 2)


@pytest.mark.parametrize("k", [1, 4])
def test_runs_of_zeros(k):
    rng = np.random.RandomState(3)
    words = rng.normal(size=(130, 20)).astype(np.float32)
    points = rng.normal(size=(200, 20)).astype(np.float32)
    for start, stop in ((0, 17), (30, 31), (60, 99), (150, 200)):
        points[start:stop] = 0
    assert_nearest(points, words, k)
    assert_nearest(points[:3], words, k)


def test_a_points_words_do_not_depend_on_the_points_beside_it():
    """Zero is equally near to all words of unit length, points between two words nearly so."""
    rng = np.random.RandomState(0)
    words = unit_length(rng.rand(500, 144).astype(np.float32))
    between = (words[rng.randint(500, size=1000)] + words[rng.randint(500, size=1000)]) / 2
    between[::7] = 0
    index = WordIndex(words)
    for k in (1, 3):
        whole = index.nearest(between, k)
        for n_parts in (2, 3, 8, 50):
            parts = [index.nearest(part, k) for part in np.array_split(between, n_parts)]
            np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_flat_points_and_equal_words():
    rng = np.random.RandomState(2)
    words = rng.rand(130, 144).astype(np.float32)
    words[[7, 90, 129]] = words[50]
    points = np.concatenate([np.zeros((5, 144), np.float32), words[[90, 129]]])
    found = WordIndex(words).nearest(points, 1)[:, 0]
    assert (found[:5] == np.square(words).sum(axis=1).argmin()).all()
    assert found[5:].tolist() == [7, 7]  # the first of those that tie
    assert WordIndex(words).nearest(points[5:], 4).tolist() == [[7, 50, 90, 129]] * 2
    assert (WordIndex(np.zeros((70, 9))).nearest(np.ones((20, 9)), 2) == [0, 1]).all()


@pytest.mark.parametrize("n_filters", [1, 2, 3, 9, 16])
@pytest.mark.parametrize("size", [3, 7, 8])
def test_convolution_in_tiles(n_filters, size):
    rng = np.random.RandomState(0)
    image = rng.randint(256, size=(41, 70)).astype(np.float32)
    filters = rng.normal(size=(n_filters, size, size)).astype(np.float32)
    for padding in ("valid", "same"):
        mine, width = kernels.convolution(image, filters, padding == "same")
        mine = mine[:, :n_filters, :width].transpose(0, 2, 1)
        np.testing.assert_allclose(mine, convolve(image, filters, padding), rtol=1e-4, atol=0.02)


def test_sparse_projection():
    rng = np.random.RandomState(0)
    codes = np.where(rng.rand(3, 500) < 0.1, rng.rand(3, 500), 0).astype(np.float32)
    matrix = projection_matrix(500, 80, "sparse", 0)
    wide = projection_matrix(500, 40_000, "sparse", 0)  # columns beyond 16 bits
    other = matrix.copy()
    other.data[7] *= 2  # not one number with signs any more
    chain = make_chain(load_surfaces(n_per_class=1, size=64, random_state=0).images)
    for each, signed in ((matrix, True), (wide, True), (other, False)):
        prepared = CpuChain(chain, Projection(each))
        assert (prepared.signs is not None) == signed
        np.testing.assert_allclose(prepared.project(codes), unit_length(codes @ each), atol=1e-5)
