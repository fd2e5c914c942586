"""`train_on_features`: a classifier from the features of many images, in bounded memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.saved import load
from midfea.progress import Plan, expect
from midfea.scale.feature_rows import FeatureRows, in_memory
from midfea.scale.manifest import file_sha256

SECONDS_FOR_GB = 1.0  # read once, for the time left
MAX_ROWS_IN_MEMORY, MAX_BYTES_IN_MEMORY = 30_000, 2**29  # else they are read block by block


@dataclass(frozen=True)
class Trained:
    """What `train_on_features` has learned, and from what.

    Attributes
    ----------
    model : the classifier
    n_images, n_without_label, n_errors : images that were learned from, and those that were left out
    n_equal : images that equal another one
    by_blocks : whether the features were too many for memory
    lost_network : whether the model had a network, which is left out
    """

    model: MidFeaClassifier
    n_images: int
    n_without_label: int
    n_errors: int
    n_equal: int
    by_blocks: bool
    lost_network: bool


def train_on_features(
    folder: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Trained:
    """The classifier that has the features of a model, and a linear head (and NS layer) learned anew.

    The head is learned from all rows that have a label. Settings are those of the model, or chosen again
    where it chose them itself. A network of the model is left out: it needs the images.

    Parameters
    ----------
    folder : written by `midfea.scale.extract.extract`, with features
    model : the model that computed them; None: where it was then
    """
    rows = FeatureRows(folder)
    fitted = _load(rows, os.fspath(model) if model is not None else rows.model, folder)
    if len(rows.labels) < 2:
        found = f"only {rows.labels[0]!r}" if rows.labels else "none"
        raise ValueError(
            f"{folder}: a classifier needs images of two classes or more, and there is {found}: labels "
            "are those of the manifest"
        )
    lost_network = fitted.network_ is not None
    fitted.set_params(random_state=seed, n_jobs=n_jobs, finetune=False, keep_features=False)
    if fitted.augment:
        fitted.set_params(augment=None)  # augmented images are not among the rows
    n_bytes = 4 * len(rows) * rows.n_features
    by_blocks = len(rows) > MAX_ROWS_IN_MEMORY or n_bytes > MAX_BYTES_IN_MEMORY
    if by_blocks:
        expect(lambda: _expected_steps(SECONDS_FOR_GB * n_bytes / 1e9))
    groups = rows.groups
    labels = np.array(rows.labels)[rows.numbers]
    if by_blocks:
        fitted.fit_large_head(rows, labels, groups)
    else:
        fitted.fit_head(in_memory(rows), labels, groups)
    n_equal = 0 if groups is None else len(rows) - (int(groups.max()) + 1)
    return Trained(
        fitted, len(rows), rows.n_without_label, rows.n_errors, n_equal, by_blocks, lost_network
    )


def _expected_steps(reading: float) -> Plan:
    """The steps of learning block by block, from the seconds of reading all features once."""
    return [
        ("looking for equal images", 1.5 * reading),
        ("some of the features", reading),
        ("classifier", 30.0),
        ("second moments", 15.0 + 3 * reading),
        ("classifier without those held out", 60.0 + 40 * reading),
        ("validation", reading),
        ("classifier of all", 30.0 + 15 * reading),
        ("what belongs to the classes", reading),
    ]


def _load(rows: FeatureRows, path: str, folder: str | os.PathLike[str]) -> MidFeaClassifier:
    """The model that has computed the rows; ValueError if it is another one."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            f"{path}: there is no such file any more, and the features in {folder} are those of this "
            "model: name it with --model"
        )
    if file_sha256(path) != rows.model_sha256:
        raise ValueError(
            f"{path}: not the model that has computed the features in {folder}: name it with --model"
        )
    model = load(path)
    if not isinstance(model, MidFeaClassifier):
        raise ValueError(f"{path}: holds a {type(model).__name__}, a classifier is needed")
    return model
