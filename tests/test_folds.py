"""The one fold maker: classes spread evenly, groups and equal images together, no class ever missing."""

import numpy as np
import pytest

from midfea.learning.folds import ALWAYS_TRAINING, join_duplicates, make_folds, n_folds_for, split
from midfea.pictures.picture import Picture


def test_every_class_is_spread_evenly():
    y = np.repeat(np.arange(3), (50, 21, 10))
    folds = make_folds(y, 10, 0)
    counts = np.array([[np.sum((folds == f) & (y == c)) for c in range(3)] for f in range(10)])
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert np.ptp(counts.sum(axis=1)) <= 2
    np.testing.assert_array_equal(folds, make_folds(y, 10, 0))
    assert (folds != make_folds(y, 10, 1)).any()


def test_groups_are_held_out_whole():
    y = np.arange(60) % 3
    groups = np.repeat(np.arange(20), 3)
    folds = make_folds(y, 4, 0, groups)
    for fold in range(4):
        train, test = split(folds, fold)
        assert len(test) and not set(groups[train]) & set(groups[test])
    assert (make_folds(y, 4, 0, np.zeros(60)) == ALWAYS_TRAINING).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_class_is_ever_missing_from_a_training_part(seed):
    rng = np.random.RandomState(seed)
    y = np.unique(rng.randint(6, size=40), return_inverse=True)[1]
    groups = rng.randint(rng.randint(2, 12), size=40)
    folds = make_folds(y, 4, seed, groups)
    for fold in np.unique(folds[folds >= 0]):
        train, test = split(folds, int(fold))
        assert set(y[train]) == set(y)
        assert not set(groups[train]) & set(groups[test])


def test_a_class_of_one_sample_stays_in_training():
    folds = make_folds(np.array([0] * 10 + [1] * 2 + [2]), 5, 0)
    assert folds[-1] == ALWAYS_TRAINING
    assert (folds[:-1] >= 0).all() and folds[10] != folds[11]


def test_fewer_folds_where_an_svm_takes_long():
    assert [n_folds_for(n, k) for n, k in ((100, 3), (2000, 60), (3060, 102))] == [10, 5, 3]


def test_equal_pictures_are_one_group():
    rng = np.random.RandomState(0)
    pixels = rng.randint(256, size=(5, 8, 8)).astype(np.uint8)
    pictures = [Picture(pixels[i]) for i in (0, 1, 2, 1, 3)]
    groups = join_duplicates(pictures)
    assert groups[1] == groups[3] and len(set(groups)) == 4
    assert join_duplicates(pictures[:3]) is None
    coloured = Picture(pixels[0], (pixels[1], pixels[2]))
    assert join_duplicates([pictures[0], coloured]) is None  # the same grey, other colours
    joined = join_duplicates(pictures, np.array([0, 0, 1, 1, 2]))  # through the equal pictures
    assert joined[0] == joined[1] == joined[2] == joined[3] != joined[4]
