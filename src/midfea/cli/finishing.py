"""What every training ends with: the model file, and what to expect of it."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from midfea.cli.common import warn
from midfea.cli.results import print_accuracy, print_classes, print_promises, print_refusing
from midfea.extras import install_line

if TYPE_CHECKING:
    from midfea import MidFeaClassifier


def save_model(model: MidFeaClassifier, path: Path) -> Path:
    """Save the model; if that fails, where there is room: what was learned in minutes is not lost."""
    try:
        model.save(path)
        return path
    except OSError as error:
        for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
            kept = folder / f"{path.stem}-recovered-{time.strftime('%Y%m%d-%H%M%S')}.midfea"
            with suppress(OSError):
                model.save(kept)
                warn(f"cannot write {path} ({error.strerror or error})")
                warn(f"the model is kept in {kept}: move it to where it belongs")
                return kept
        raise


def missed_network(model: MidFeaClassifier, by_default: bool) -> str:
    """What was not trained because PyTorch is not installed, and how to mend it; else empty."""
    from midfea.estimators.presets import NO_NETWORK

    if model.lacks_network:
        return f"{NO_NETWORK}: {install_line('torch')}"
    if by_default and model.preset == "fast":
        return (
            "Trained with preset fast, because PyTorch is not installed. With it the default is best: "
            f"usually more accurate, in minutes instead of seconds: {install_line('torch')}"
        )
    return ""


def print_learned(model: MidFeaClassifier, path: Path, learned: str, missed: str) -> None:
    """What was learned, how good the model is, what is missing in it, and where it is."""
    print(f"Learned from {learned}.")
    if len(model.validation_):
        _print_validation(model, path)
    else:
        warn("how good the model is cannot be said: every class has one image only")
    if missed:
        print(missed)
    print(f"Model: {path} ({path.stat().st_size / 1e6:.1f} MB)")


def _print_validation(model: MidFeaClassifier, path: Path) -> None:
    """What to expect on new images, from the validation record."""
    from midfea.learning.predictions import Predictions

    validation = model.validation_
    predictions = Predictions.of_validation(validation, model.classes_.astype(str))
    if validation.is_enough:
        print_classes(predictions, all_are=f"midfea info {path}")
        print_accuracy(
            f"Accuracy on new images: {validation.interval}\n  ({validation.how})", predictions
        )
        print_promises(predictions, path)
        print_refusing(model, path)
    else:
        print(f"Accuracy on new images: {validation.interval}\n  ({validation.how})")
