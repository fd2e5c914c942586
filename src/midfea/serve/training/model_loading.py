"""Loading the classifier of a workspace."""

from __future__ import annotations

from pathlib import Path

from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.saved import load
from midfea.model_file import ModelFileError


def load_classifier(path: Path) -> MidFeaClassifier:
    """The classifier of a model file; `ModelFileError` if it holds another estimator."""
    model = load(path)
    if not isinstance(model, MidFeaClassifier):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}: a classifier is needed")
    return model
