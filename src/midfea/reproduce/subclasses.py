"""The control of the neuron-selectivity layer: the same classes of neurons without its objective.

Each class's training samples are parted by k-means, and a logistic regression tells each part from all
other samples. Its probabilities take the place of the activations. There is no decoder, no code and none
of the paper's penalties, so what this layer gains the objective is not needed for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from midfea.baselines.linear_svm import scaling, standardised
from midfea.learning.folds import Indices
from midfea.learning.head import Features
from midfea.learning.kmeans import kmeans
from midfea.learning.newton import gram_product
from midfea.learning.selectivity.encoder import choose_ridge, logistic_regression
from midfea.parallel import linear_algebra_threads
from midfea.stages import nearest_words


def subclass_layer(
    x: Features, y: Indices, n_per_class: int, seed: int
) -> Callable[[Features], Features]:
    """From features to the probabilities of the subclasses, learned from samples and class numbers."""
    centre, scale = scaling(x)
    inputs = standardised(x, centre, scale)
    targets = subclasses(inputs, y, n_per_class, seed)
    with linear_algebra_threads(1):
        ridge = choose_ridge(inputs.T, y) * 2  # mean squared length of inputs and their constant
        weights, _ = logistic_regression(gram_product(inputs), targets, ridge)
    return lambda new: np.asarray(
        expit(standardised(new, centre, scale) @ (inputs.T @ weights.T) + weights.sum(axis=1)),
        dtype=np.float32,
    )


def subclasses(x: Features, y: Indices, n_per_class: int, seed: int) -> Features:
    """One row for each part of each class, 1 for the samples that belong to it: (n_parts, n)."""
    rows, rng = [], np.random.RandomState(seed)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        centres = kmeans(x[members], min(n_per_class, len(members)), random_state=rng)
        nearest = nearest_words(x[members], centres, 1)[:, 0]
        for part in range(len(centres)):
            row = np.zeros(len(y), dtype=np.float32)
            row[members[nearest == part]] = 1
            rows.append(row)
    return np.stack(rows)
