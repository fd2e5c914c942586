"""Changed copies of the training images for the SVM and the neurons (`augment`).

Which changes leave a class as it is depends on the classes: mirrored copies cost points on Caltech-101,
where most things face one way. So the kinds can be chosen on held-out images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midfea.learning import svm as linear_svm
from midfea.pictures.augmentation import KINDS, copies
from midfea.pictures.images import Images
from midfea.progress import reporting_to, track

Features = NDArray[np.float32]
Kinds = tuple[str, ...]

N_COPIES = 2  # of each image
N_FOLDS, C = 3, 10.0


def kinds_of(augment: Any) -> Kinds | Literal["cv"]:
    """The parameter as it is used from here on; ValueError if it cannot be."""
    if augment is None or augment == "cv":
        return augment or ()
    kinds = (augment,) if isinstance(augment, str) else tuple(augment)
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f'augment is None, "cv" or kinds among {", ".join(KINDS)}; got {unknown[0]!r}')
    return kinds


def with_copies(model: Any, images: Images, features: Features, kinds: Kinds) -> Features:
    """Features of the images, and below them those of their first copies, of their second ones, ..."""
    seed = model.random_state if isinstance(model.random_state, int) else 0

    def made(i: int) -> Sequence[Any]:
        rng = np.random.RandomState([seed, i])
        return copies(model._checked_grey(images, i), kinds, N_COPIES, rng)

    changed = list(model._in_parallel(made, range(len(images))))
    turns = zip(*changed, strict=True)
    return np.concatenate([features, *(model._features(Images(list(turn))) for turn in turns)])


def choose_kinds(
    model: Any, images: Images, features: Features, y: NDArray[np.intp], groups: Any
) -> Kinds:
    """Those that each help by themselves, together, unless one of them alone is better."""

    def told(kinds: Kinds) -> int:
        """How many images are told rightly when held out."""
        with reporting_to(None):
            inputs = with_copies(model, images, features, kinds) if kinds else features
            return linear_svm.told_when_held_out(inputs, y, C, N_FOLDS, seed, groups)

    seed = model.random_state if isinstance(model.random_state, int) else 0
    found: dict[Kinds, int] = {(): told(())}
    for kind in track(KINDS, "kinds of copies", len(KINDS)):
        found[(kind,)] = told((kind,))
    helping = tuple(kind for kind in KINDS if found[(kind,)] > found[()])
    if len(helping) > 1:
        found[helping] = told(helping)
    return max(found, key=lambda kinds: found[kinds])
