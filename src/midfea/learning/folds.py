"""The one fold maker: which samples are held out together, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.likeness import fingerprint, near_duplicates
from midfea.pictures.picture import Picture
from midfea.progress import track

Indices = NDArray[np.intp]
ALWAYS_TRAINING = -1  # the fold of samples that are never held out

MAX_FOLDS = 10
# samples^2 x classes, which an SVM's time goes by: from here on fewer folds
WORK_FOR_5_FOLDS, WORK_FOR_3_FOLDS = 2e8, 8e8


def n_folds_for(n_samples: int, n_classes: int) -> int:
    """Ten; five or three where a linear SVM takes long."""
    work = n_samples**2 * n_classes
    return MAX_FOLDS if work <= WORK_FOR_5_FOLDS else 5 if work <= WORK_FOR_3_FOLDS else 3


def make_folds(y: Indices, n_folds: int, seed: int, groups: NDArray[Any] | None = None) -> Indices:
    """The fold of each sample, 0 .. n_folds - 1, or `ALWAYS_TRAINING`.

    Every class is spread evenly over the folds. A group is never split, and no class is ever missing
    from a training part: a class whose samples would all be held out at once, such as a class of one
    sample or of one group, stays in training, together with the groups that it lies in.

    Parameters
    ----------
    y : class numbers 0 .. n_classes - 1
    groups : group of each sample, such as the person shown; None: each sample is a group of its own
    """
    n_classes = int(y.max()) + 1
    names = _group_numbers(y, groups)
    counts = np.zeros((int(names.max()) + 1, n_classes), dtype=np.int64)  # (group, class)
    np.add.at(counts, (names, y), 1)
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(axis=1), kind="stable")]  # large groups first
    fold_of_group = np.full(len(counts), ALWAYS_TRAINING, dtype=np.intp)
    filled = np.zeros((n_folds, n_classes), dtype=np.int64)
    sizes = np.zeros(n_folds, dtype=np.int64)
    for group in order:
        classes = np.flatnonzero(counts[group])
        same_class = filled[:, classes] @ counts[group, classes]
        fold = int(np.lexsort((sizes, same_class))[0])  # the least of its classes, then the smallest
        fold_of_group[group] = fold
        filled[fold] += counts[group]
        sizes[fold] += counts[group].sum()
    _keep_classes_in_training(fold_of_group, counts)
    return fold_of_group[names]


def _group_numbers(y: Indices, groups: NDArray[Any] | None) -> Indices:
    """The group of each sample, from 0; without groups each is alone."""
    return np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]


def hold_out_one_fold(
    y: Indices, n_folds: int, seed: int, groups: NDArray[Any] | None = None
) -> Indices:
    """Like `make_folds`, but only one of the folds is made: 0, or `ALWAYS_TRAINING`.

    It takes no memory of groups x classes, and a second for a million samples.
    """
    names = _group_numbers(y, groups)
    first = np.unique(names, return_index=True)[1]
    label_of_group = y[first]  # a group of several classes stands for one of them
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(first))
    order = order[np.argsort(label_of_group[order], kind="stable")]  # class by class
    labels = label_of_group[order]
    rank = np.arange(len(order)) - np.searchsorted(labels, labels)  # of each group in its class
    begin = rng.randint(n_folds, size=int(y.max()) + 1)
    held_out = np.zeros(len(first), dtype=bool)
    held_out[order] = (rank + begin[labels]) % n_folds == 0
    missing = np.setdiff1d(y, y[~held_out[names]])  # of the training part
    held_out[names[np.isin(y, missing)]] = False
    return np.where(held_out[names], 0, ALWAYS_TRAINING)


def _keep_classes_in_training(fold_of_group: Indices, counts: NDArray[np.int64]) -> None:
    """Groups of a class that lies in one fold are taken out of that fold."""
    for label in range(counts.shape[1]):
        groups = np.flatnonzero(counts[:, label])
        if len(np.unique(fold_of_group[groups])) == 1:
            fold_of_group[groups] = ALWAYS_TRAINING


def split(folds: Indices, fold: int) -> tuple[Indices, Indices]:
    """Indices of the training part and of the part that is held out."""
    return np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


def splits(folds: Indices) -> list[tuple[Indices, Indices]]:
    """The same for each fold."""
    return [split(folds, int(fold)) for fold in np.unique(folds) if fold != ALWAYS_TRAINING]


def count_groups(groups: Indices | None, indices: Indices) -> int:
    """Groups among these samples."""
    return len(indices) if groups is None else len(np.unique(groups[indices]))


def join_duplicates(
    pictures: Sequence[Picture], groups: NDArray[Any] | None = None
) -> NDArray[np.intp] | None:
    """Groups in which equal pictures and near-duplicates are together; None if every picture is alone.

    A picture and its duplicate on the two sides of a fold would promise too much.
    """
    seen = [
        (picture.digest(), fingerprint(picture))
        for picture in track((pictures[i] for i in range(len(pictures))), "reading", len(pictures))
    ]
    prints = np.stack([values for _, values in seen])
    joined = join_groups([digest for digest, _ in seen], near_duplicates(prints), groups)
    alone = groups is None and len(np.unique(joined)) == len(pictures)
    return None if alone else joined


def join_groups(*groupings: Any) -> NDArray[np.intp]:
    """The groups of samples that are together in one of the groupings, or joined by others that are.

    Examples
    --------
    >>> from midfea.learning.folds import join_groups
    >>> join_groups([1, 1, 2, 3, 4], ["a", "b", "b", "c", "d"]).tolist()
    [0, 0, 0, 1, 2]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = [np.unique(each, return_inverse=True)[1] for each in groupings if each is not None]
    n = len(names[0])
    starts = n + np.cumsum([0, *(int(each.max()) + 1 for each in names)])
    samples = np.tile(np.arange(n), len(names))
    groups = np.concatenate([each + start for each, start in zip(names, starts, strict=False)])
    links = coo_array((np.ones(len(samples)), (samples, groups)), shape=(starts[-1],) * 2)
    return connected_components(links, directed=False)[1][:n].astype(np.intp)
