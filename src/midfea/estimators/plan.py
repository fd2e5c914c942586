"""The steps of `MidFeaClassifier.fit` in their order, and roughly how long each takes.

Names are those that `midfea.progress.track` reports. The seconds are those of two cores; only their
ratios matter to a progress bar: how fast the machine is shows itself.
"""

from __future__ import annotations

from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.choices import ChoiceSettings
from midfea.learning.codebook import MAX_IMAGES
from midfea.learning.folds import n_folds_for
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.settings import WORD_COUNTS

AUGMENTED_IMAGES_PER_SECOND = 350  # that the network sees in training


def expected_steps(
    model: MidFeaClassifier,
    n_images: int,
    n_classes: int,
    n_new: int | None = None,
) -> dict[str, float]:
    """Seconds of each step of fitting a classifier.

    Parameters
    ----------
    n_new : images whose features are to be computed, if the extractor is kept and only the head is
        fitted (`MidFeaClassifier.fit_head`); None: everything is learned
    """
    n_words = WORD_COUNTS[0] if model.n_words == "auto" else model.n_words
    cost = 0.5 + n_words / 1000  # of an image's features and of learning the words
    tune = n_new is None and model.fine_tunes()
    svm = (n_images / 2000) ** 2 * (n_classes / 10)
    steps: dict[str, float] = {}
    if n_new is None:
        steps["reading"] = 0.1 + 0.0005 * n_images
        n_tried = (model.floor == "auto") + (model.partition == "auto")
        if n_tried:
            steps["settings"] = (1 + n_tried) * (0.5 + 0.005 * min(n_images, ChoiceSettings().n_images))
        steps["filters"] = 0.7
        steps["describing"] = 0.001 * min(n_images, MAX_IMAGES) * cost
        steps["words"] = 4.0 * cost
    steps["features"] = 0.2 + 0.004 * (n_images if n_new is None else n_new) * cost
    steps["classifier"] = 0.2 + 0.4 * n_folds_for(n_images, n_classes) * svm
    if model.selectivity is not None:
        n_neurons = model.selectivity if isinstance(model.selectivity, int) else 10
        layer = 0.01 * n_neurons * (1 + n_images / 500)
        steps["classifier"] += 3 * layer
        steps["neuron selectivity"] = layer
    if tune:
        steps |= _network_steps(model.network or NetworkSettings(), n_images, n_classes)
    return steps


def _network_steps(settings: NetworkSettings, n_images: int, n_classes: int) -> dict[str, float]:
    names = [f"trial {i + 1}" for i in range(len(settings.mirror_candidates))]
    if n_images / settings.n_folds < settings.min_validation_images:
        names += [f"fold {i}" for i in range(2, settings.n_folds + 1)]
    trial = settings.images_seen_in_trial(n_images) / AUGMENTED_IMAGES_PER_SECOND
    steps = {"small images": 0.2} | {f"fine-tuning, {name}": trial for name in names}
    whole = settings.images_seen(n_images, n_images / n_classes)
    return steps | {"fine-tuning": whole / AUGMENTED_IMAGES_PER_SECOND}
