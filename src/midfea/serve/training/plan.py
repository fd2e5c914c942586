"""Roughly how long each step of a training takes."""

from __future__ import annotations

from midfea.estimators import choices
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.finetuned import FEW, MIRRORED, N_FOLDS, copies_seen, wanted

COPIES_A_SECOND = 350  # that fine-tuning sees


def expected_steps(
    model: MidFeaClassifier, n_images: int, n_classes: int, n_new: int | None = None
) -> dict[str, float]:
    """Seconds of each step, in order; `n_new` images are new to a model with filters and words."""
    harder = {"fast": 1.0, "paper": 1.5, "best": 6.0}.get(str(model.preset), 1.0)
    svm = (n_images / 2000) ** 2 * (n_classes / 10)
    to_read = n_images if n_new is None else n_new
    seconds = {"reading files": 0.5 + 0.001 * to_read}
    if n_new is None:
        if model.preset != "paper":
            seconds["settings"] = 1.5 + 0.015 * min(n_images, choices.N_IMAGES)
        seconds |= {
            "reading": 0.1,
            "filters": 0.7,
            "describing": 0.001 * min(n_images, 1000) * harder,
            "words": 4.0 * harder,
        }
    seconds |= {"features": 0.2 + 0.004 * to_read * harder, "classifier": 0.2 + 4 * svm}
    if isinstance(model.selectivity, int):
        seconds["classifier"] += 0.02 * model.selectivity * (1 + n_images / 500)
        seconds["neuron selectivity"] = 0.01 * model.selectivity * (1 + n_images / 500)
    if wanted(model.finetune):
        tried = [f"trial {i + 1}" for i in range(len(MIRRORED))]
        if n_images / N_FOLDS < FEW:
            tried += [f"part {i}" for i in range(2, N_FOLDS + 1)]
        seconds_per_trial = copies_seen(n_images) / 2 / len(MIRRORED) / COPIES_A_SECOND
        seconds |= {f"fine-tuning, {name}": seconds_per_trial for name in tried}
        seconds["fine-tuning"] = copies_seen(n_images, n_images / n_classes) / COPIES_A_SECOND
    seconds["checking"] = 0.2 + 3 * svm
    return seconds | {"learning curve": 0.1 + 1.5 * svm}
