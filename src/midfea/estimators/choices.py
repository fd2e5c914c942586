"""Settings that suit a set of images (`CHOICES`), chosen on held-out images.

floor : normalisation raises the faintest texture to full strength. In photographs of one thing on a flat
    ground that is sensor noise, and a floor that leaves it out is worth points; in faces under changing
    light it is the face.
partition : where things stand differs between photographs of objects, and a pyramid forgives that. In
    aligned images, such as faces, more cells and no large ones tell more.
n_words : more words tell the sexes of new people far better, hands and faces in all lights worse.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.estimators.base import MAX_IMAGES
from midfea.estimators.presets import CHOICES, WORDS
from midfea.estimators.transformer import MidFea
from midfea.learning import svm as linear_svm
from midfea.pictures.images import Images
from midfea.progress import reporting_to, track

N_IMAGES, OF_A_CLASS = 800, 30
N_WORDS, N_SAMPLES, N_FOLDS, C = 200, 20_000, 3, 10.0
CLEARLY = 0.95  # of the loss of what is usual: a floor that Caltech-101 pays for has had 0.99
NOTHING = 1e-3  # is left to choose by, at such a loss
# More words are tried on images of fewer pixels on their longer side, if features of all stay below
# 2 GB and the SVM's weights below 64 MB, and if there are descriptors to learn them from: of each 4
# pixels there is one, but fewer at borders.
SMALL, MOST_FEATURES, MOST_WEIGHTS, PIXELS = 64, 2**29, 2**24, 32
# AR faces and Yale B, three draws each, have had 0.36 to 0.62; AR's sexes 0.8 to 1.1, hands 0.9 to 1.2.
FAR = 0.7  # of the loss with a pyramid's cells: the same things lie in the same places


class Chosen(NamedTuple):
    """Values of parameters, and whether the same things lie in the same places of all images."""

    settings: dict[str, Any]
    in_place: bool


def choose(model: Any, images: Images, y: NDArray[np.intp], groups: Any = None) -> Chosen:
    """The values of the parameters that are "cv": with them, one after the other, features like the
    model's but fewer make the labels of held-out training images clearly more likely.

    Likelihood rather than a count of errors: it tells which is better where both make hardly any. In
    three draws of each of five sets it chose the same but once: cells are equal for hands.
    """
    chosen = {name: values[0] for name, values in CHOICES.items() if getattr(model, name) == "cv"}
    seed = model.random_state if isinstance(model.random_state, int) else 0
    some = drawn(y, seed)
    classes, labels = np.unique(y[some], return_inverse=True)
    if not chosen or len(classes) < 2:
        return Chosen(chosen, False)
    greys = [images.grey(i, model.max_side) for i in some]
    together = None if groups is None else groups[some]
    like = {field.name: getattr(model, field.name) for field in fields(MidFea)} | {
        "preset": None,
        "scales": (1.0,),
        "n_words": min(WORDS[0] if model.n_words == "cv" else model.n_words, N_WORDS),
        "n_samples": min(model.n_samples, N_SAMPLES),
        "projection": None,
        "max_side": None,
        "random_state": seed,
        "verbose": False,
    }
    least, in_place = np.inf, False
    for name in track([None, *chosen], "settings", 1 + len(chosen)):
        tried = chosen if name is None else chosen | {name: CHOICES[name][1]}
        with reporting_to(None):  # its steps are those of the model, told again
            features = MidFea(**(like | tried)).fit(greys).transform(greys)
            loss = linear_svm.held_out_loss(features, labels, C, N_FOLDS, seed, together)
        loss = max(loss, NOTHING)
        if loss < CLEARLY * least:
            in_place = name == "partition" and loss < FAR * least
            least, chosen = loss, tried
    return Chosen(chosen, in_place)


def learn(
    model: Any, images: Images, y: NDArray[np.intp], groups: Any, settings: dict[str, Any]
) -> NDArray[np.float32]:
    """Filters and words of a model with these settings, and its features of the training images.

    Where `n_words` is "cv", with more words if they make labels of held-out images clearly more likely.
    """

    def features_with(words: dict[str, int]) -> NDArray[np.float32]:
        model._learn_chain(images, settings | words)
        return np.asarray(model._features(images))

    def loss(features: NDArray[np.float32]) -> float:
        seed = model.random_state if isinstance(model.random_state, int) else 0
        return max(linear_svm.held_out_loss(features, y, C, N_FOLDS, seed, groups), NOTHING)

    features = features_with({})
    if model.n_words != "cv" or not affords(WORDS[1], model, images, y):
        return features
    usual = loss(features)
    del features  # one of them at a time in memory
    features = features_with({"n_words": WORDS[1]})
    if loss(features) < CLEARLY * usual:
        return features
    del features
    return features_with({})


def affords(n_words: int, model: Any, images: Images, y: NDArray[np.intp]) -> bool:
    """Whether so many words are worth a trial: images are small, thus soon described, and enough to
    learn words from; their features and the SVM take no more memory than others'."""
    n_features = model.n_cells_ * n_words
    if len(y) * n_features > MOST_FEATURES or len(np.unique(y)) * n_features > MOST_WEIGHTS:
        return False
    shapes = [images.grey(i, model.max_side).shape for i in range(min(len(y), MAX_IMAGES))]
    n_descriptors = min(model.n_samples, sum(height * width for height, width in shapes) // PIXELS)
    return bool(np.median([max(shape) for shape in shapes]) < SMALL and n_descriptors >= n_words)


def drawn(y: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Which images to choose with: N_IMAGES or a few more, of some classes only where there are many.

    With few images of each, other settings suit than with as many as there are: of 800 images of all
    classes of Caltech-101 two draws of three chose a floor, of 400 images of 21 classes none.
    """
    rng = np.random.RandomState(seed)
    classes = rng.permutation(np.unique(y))
    of_each = max(OF_A_CLASS, -(-N_IMAGES // len(classes)))
    parts: list[NDArray[np.intp]] = []
    for label in classes:
        if sum(map(len, parts)) < N_IMAGES:
            parts.append(rng.permutation(np.flatnonzero(y == label))[:of_each])
    return np.sort(np.concatenate(parts))
