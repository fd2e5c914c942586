"""Fitting a classifier on the images of a workspace: all of it, or its head on kept features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.datasets.folder import Photo, read_photos
from midfea.datasets.series import Series, suggest_groups
from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.folds import join_groups
from midfea.learning.network.settings import NetworkSettings
from midfea.pictures.likeness import fingerprints, near_duplicates
from midfea.pictures.picture import Picture
from midfea.serve.errors import Refused
from midfea.serve.store.files import ID_DIGITS
from midfea.serve.store.images import StoredImage
from midfea.serve.store.model_file import load_classifier
from midfea.serve.store.workspace import Workspace
from midfea.serve.training.features import KeptFeatures
from midfea.serve.training.phases import TrainingSettings

SEED = 0
N_TIMED_IMAGES = 16
MAX_FEATURE_BYTES = 1_000_000_000  # of features that are kept only to show similar images


class Fitted(NamedTuple):
    """A trained classifier, the images it was trained on, and some of them as the model takes them."""

    model: MidFeaClassifier
    images: list[StoredImage]
    series: Series | None
    samples: list[Picture]
    n_learned_from: int  # images, when filters and words were learned

    def correct(self) -> dict[str, bool]:
        """Of the images in validation, by id, whether the prediction is correct."""
        validation = self.model.validation_
        pairs = zip(validation.indices, validation.correct.tolist(), strict=True)
        return {self.images[i].id: correct for i, correct in pairs}


def check_classes(images: Sequence[StoredImage]) -> None:
    """`Refused`, saying what is missing, if there are not two classes with images."""
    n_classes = len({image.label for image in images})
    if n_classes < 2:
        has = "one class with images" if n_classes else "no images yet"
        raise Refused(f"two classes with images are needed to train, and there is {has}: add some")


def classifier(settings: TrainingSettings, network: NetworkSettings | None) -> MidFeaClassifier:
    """A new classifier of these settings; network: None for the usual one."""
    assert settings.preset != "auto"  # those of a phase
    model = MidFeaClassifier(
        preset=settings.preset,
        C="auto",
        selectivity=settings.neurons or None,
        network=network,
        random_state=SEED,
        keep_features=True,
    )
    if settings.finetune:  # a preset may ask for it too
        model.finetune = True
    return model


def fit(
    workspace: Workspace, model: MidFeaClassifier, images: list[StoredImage], features: KeptFeatures
) -> Fitted:
    """A new classifier; it learns filters and words too."""
    photos, used = _read(workspace, images, model)
    check_classes(used)
    pictures = [photo.picture for photo in photos]
    prints = fingerprints(pictures)
    series = _series(workspace, used, prints)
    model.fit(pictures, [image.label for image in used], series and series.groups)
    if model.network_ is None or model.training_features_.nbytes <= MAX_FEATURE_BYTES:
        features.add([image.id for image in used], _digests(photos), prints, model.training_features_)
    return Fitted(model, used, series, pictures[:N_TIMED_IMAGES], len(used))


def fit_head(
    workspace: Workspace,
    fresh: MidFeaClassifier,
    images: list[StoredImage],
    features: KeptFeatures,
    path: Path,
    n_learned_from: int,
) -> Fitted:
    """The classifier of a file with a new head; features of new images only."""
    model = load_classifier(path)
    names = ("C", "selectivity", "finetune", "keep_features")
    model.set_params(**{name: getattr(fresh, name) for name in names})
    new = [image for image in images if image.id not in features.places]
    photos, used = _read(workspace, new, model)
    if photos:
        pictures = [photo.picture for photo in photos]
        rows = model.features(pictures)
        features.add([image.id for image in used], _digests(photos), fingerprints(pictures), rows)
    images = [image for image in images if image.id in features.places]
    check_classes(images)
    ids, labels = [image.id for image in images], [image.label for image in images]
    prints = features.prints(ids)
    equal = [features.places[id].pixels for id in ids]
    series = _series(workspace, images, prints)
    groups = join_groups(equal, near_duplicates(prints), series and series.groups)
    model.fit_head(features.rows(ids), labels, groups)
    timed = photos or _read(workspace, images[:N_TIMED_IMAGES], model)[0]
    samples = [photo.picture for photo in timed[:N_TIMED_IMAGES]]
    return Fitted(model, images, series, samples, n_learned_from)


def _series(
    workspace: Workspace, images: list[StoredImage], prints: NDArray[np.float32]
) -> Series | None:
    """The series that `midfea train` would find."""
    return suggest_groups([workspace.images.path(image) for image in images], prints)


def _digests(photos: Sequence[Photo]) -> list[str]:
    return [photo.picture.digest().hex()[:ID_DIGITS] for photo in photos]


def _read(
    workspace: Workspace, images: list[StoredImage], model: MidFeaClassifier
) -> tuple[list[Photo], list[StoredImage]]:
    """The images that can be used: others were put there by hand, or are gone by now."""
    by_path = {workspace.images.path(image): image for image in images}
    photos, _ = read_photos(list(by_path), model.max_side, model.min_side)
    return photos, [by_path[photo.path] for photo in photos]
