"""The model file of a workspace: loaded, and replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.saved import load
from midfea.files import sync_folder
from midfea.model_file import ModelFileError
from midfea.serve.store.changes import WriteLock
from midfea.serve.store.files import Signature, signature


class ModelFile:
    """One file, replaced as a whole."""

    def __init__(self, path: Path, lock: WriteLock) -> None:
        self.path, self._lock = path, lock

    def signature(self) -> Signature | None:
        """Changes whenever the file does; None if there is no regular file."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return signature(status) if stat.S_ISREG(status.st_mode) else None

    def replace(self, file: Path) -> None:
        """Make a complete file the model, in one step."""
        with self._lock():
            os.replace(file, self.path)
            sync_folder(self.path.parent)


def load_classifier(path: Path) -> MidFeaClassifier:
    """The classifier of a model file; `ModelFileError` if it holds another estimator."""
    model = load(path)
    if not isinstance(model, MidFeaClassifier):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}: a classifier is needed")
    return model
