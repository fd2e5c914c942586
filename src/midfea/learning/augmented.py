"""Augmented images for the linear head and the neurons (the classifier's parameter `augment`).

Which changes leave a class as it is depends on the classes: mirrored images harm where most things face
one way. So the kinds of change can be chosen by validation.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midfea.learning.choices import Trials
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.folds import Indices
from midfea.learning.head import count_correct, validation_scores
from midfea.parallel import in_parallel
from midfea.pictures.augmentation import KINDS, augmented_images
from midfea.pictures.picture import Picture
from midfea.pictures.resize import Grey
from midfea.progress import reporting_to, track

Features = NDArray[np.float32]
Kinds = tuple[str, ...]

N_PER_IMAGE = 2
C = 10.0


def check_augment(augment: Any) -> Kinds | Literal["auto"]:
    """The parameter `augment` as a tuple of kinds, or "auto"; ValueError if it cannot be used."""
    if augment is None or augment == "auto":
        return augment or ()
    kinds = (augment,) if isinstance(augment, str) else tuple(augment)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(
            f'augment is None, "auto" or kinds among {", ".join(KINDS)}; got {unknown[0]!r}'
        )
    return kinds


def with_augmented(
    trials: Trials, extractor: FeatureExtractor, features: Features, kinds: Kinds
) -> Features:
    """The features of the pictures, then those of their first augmented images, of the second, ..."""
    pictures, n_threads = trials.pictures, trials.n_threads

    moves = tuple(kind for kind in kinds if kind != "light")  # light changes the grey values

    def augment(i: int) -> list[Picture]:
        def changed(plane: Grey, kinds: Kinds) -> list[Grey]:
            return augmented_images(plane, kinds, N_PER_IMAGE, np.random.RandomState([trials.seed, i]))

        colours = pictures[i].colours if extractor.colour else ()
        planes = [changed(pictures[i].grey, kinds), *(changed(plane, moves) for plane in colours)]
        rows = zip(*planes, strict=True)
        return [Picture(grey, tuple(colours), pictures[i].white) for grey, *colours in rows]

    sets = zip(*in_parallel(augment, range(len(pictures)), n_threads), strict=True)
    return np.concatenate([features, *(extractor.transform(part, n_threads) for part in sets)])


def choose_kinds(
    trials: Trials, extractor: FeatureExtractor, features: Features, folds: Indices
) -> Kinds:
    """The kinds that help each by itself, all together, unless one of them alone is better."""

    def n_correct(kinds: Kinds) -> float:
        with reporting_to(None):
            inputs = with_augmented(trials, extractor, features, kinds) if kinds else features
            weights = trials.class_weights
            scores = validation_scores(inputs, trials.y, (C,), folds, class_weights=weights)[0]
        return count_correct(scores, trials.y, weights)

    correct: dict[Kinds, float] = {(): n_correct(())}
    for kind in track(KINDS, "kinds of change", len(KINDS)):
        correct[(kind,)] = n_correct((kind,))
    helping = tuple(kind for kind in KINDS if correct[(kind,)] > correct[()])
    if len(helping) > 1:
        correct[helping] = n_correct(helping)
    return max(correct, key=lambda kinds: correct[kinds])
