"""Roughly how long the steps of our work take, for `midfea.progress.expect`.

Names are those that `midfea.progress.track` reports. The seconds are those of two cores; only their
ratios matter: how fast the machine is shows itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from midfea.estimators.ns_choice import CANDIDATES
from midfea.extras import missing
from midfea.learning.choices import ChoiceSettings
from midfea.learning.codebook import LARGE_SIDE, MAX_IMAGES
from midfea.learning.folds import n_folds_for
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.settings import WORD_COUNTS, ChainSettings
from midfea.pictures.picture import Picture
from midfea.progress import Plan

if TYPE_CHECKING:
    from midfea.estimators.classifier import MidFeaClassifier

AUGMENTED_IMAGES_PER_SECOND = 370  # that the network sees in training
USUAL_SHAPE = (112, 150)  # pixels of a photograph as a model sees it
N_MEASURED_IMAGES = 20


def expected_steps(
    model: MidFeaClassifier,
    n_images: int,
    n_classes: int,
    pictures: Sequence[Picture] = (),
    n_new: int | None = None,
) -> Plan:
    """Fitting a classifier.

    Parameters
    ----------
    pictures : the images, if they are at hand; the first of them are measured
    n_new : images whose features are to be computed, if the extractor is kept and only the head is
        fitted (`MidFeaClassifier.fit_head`); None: everything is learned
    """
    n_images, n_classes = max(n_images, 1), max(n_classes, 1)
    shapes = [pictures[i].shape for i in range(min(len(pictures), N_MEASURED_IMAGES))] or [USUAL_SHAPE]
    side = float(np.median([max(shape) for shape in shapes]))
    pixels = float(np.mean([height * width for height, width in shapes]))
    cost = _Costs(model, pixels, side)
    steps: list[tuple[str, float]] = []
    if n_new is None:
        steps += [("reading", 0.0005 * n_images), *cost.settings_tried(n_images)]
        for n_words in cost.word_counts():
            steps += cost.learning(n_images, n_words)
            steps.append(("features", 0.2 + n_images * cost.features(n_words)))
    else:
        steps.append(("features", 0.2 + n_new * cost.features(cost.word_counts()[-1])))
    svm = _svm(n_images, n_classes)
    classifier = 0.1 + n_folds_for(n_images, n_classes) * svm
    if model.selectivity is None:
        steps.append(("classifier", classifier))
    else:
        n_neurons = model.selectivity if isinstance(model.selectivity, int) else 10
        layer = 0.01 * n_neurons * (1 + n_images / 500)
        if isinstance(model.selectivity, int):
            steps.append(("settings of the NS layer", len(CANDIDATES) * (classifier + 3 * layer)))
        steps += [("classifier", classifier + 3 * layer), ("neuron selectivity", layer)]
    steps.append(("linear head", 0.4 + svm))  # this one is not reported
    if n_new is None and model.finetune and not missing("torch"):
        steps += _network_steps(model.network or NetworkSettings(), n_images, n_classes)
    return steps


def expected_curve(n_images: int, n_classes: int) -> Plan:
    """The learning curve."""
    return [("learning curve", 0.2 + 0.3 * _svm(n_images, n_classes))]


def expected_report(n_images: int, n_classes: int) -> Plan:
    """The report of a training."""
    curve = expected_curve(n_images, n_classes)
    without = ("leaving classes out", 0.5 + 16 * _svm(n_images, n_classes))
    return [("reading", 0.0002 * n_images), *curve, without, ("stage maps", 2.0)]


def _svm(n_images: int, n_classes: int) -> float:
    """Seconds of one linear SVM and its share of the Gram matrix."""
    return 0.2 * (n_images / 2000) ** 2 * (n_classes / 10)


@dataclass(frozen=True)
class _Costs:
    """Seconds of learning and computing the features of images of this size."""

    settings: ChainSettings
    pixels: float  # of an image
    side: float  # pixels, the longer one

    def settings_tried(self, n_images: int) -> Plan:
        rules, settings = ChoiceSettings(), self.settings
        n_tried = (settings.floor == "auto") + (settings.partition == "auto")
        if not n_tried:
            return []
        n, n_words = min(n_images, rules.n_images), rules.n_words
        learning = sum(seconds for _, seconds in self.learning(n, n_words, rules.n_samples))
        trial = learning + n * self.features(n_words) + rules.n_folds * _svm(n, 10)
        return [("settings", (1 + n_tried) * trial)]

    def word_counts(self) -> tuple[int, ...]:
        """Numbers of words that are tried one after the other."""
        rules = ChoiceSettings()
        if self.settings.n_words != "auto":
            return (int(self.settings.n_words),)
        return rules.word_counts if self.side < rules.max_side_for_more_words else WORD_COUNTS[:1]

    def learning(self, n_images: int, n_words: int, n_samples: int | None = None) -> Plan:
        """Filters and words."""
        n_learned_from = min(n_images, MAX_IMAGES)
        n_samples = min(n_samples or self.settings.n_samples, int(n_learned_from * self.pixels))
        return [
            ("filters", 0.4),
            ("describing", 0.0005 * n_learned_from * self._size),
            ("words", n_samples / 1e5 * (0.5 + n_words / 480)),
        ]

    def features(self, n_words: int) -> float:
        """Of one image."""
        return self._size * (0.0025 + 0.0017 * n_words / 1000)

    @property
    def _size(self) -> float:
        """Places of an image, in images of 100x100 pixels; more with a second scale."""
        scales = self.settings.scales
        n_scales = len(scales) if scales != "auto" else 1 + (self.side >= LARGE_SIDE)
        return self.pixels / 1e4 * (1.25 if n_scales > 1 else 1.0)


def _network_steps(settings: NetworkSettings, n_images: int, n_classes: int) -> Plan:
    names = [f"trial {i + 1}" for i in range(len(settings.mirror_candidates))]
    if n_images / settings.n_folds < settings.min_validation_images:
        names += [f"fold {i}" for i in range(2, settings.n_folds + 1)]
    trial = settings.images_seen_in_trial(n_images) / AUGMENTED_IMAGES_PER_SECOND
    whole = settings.images_seen(n_images, n_images / n_classes) / AUGMENTED_IMAGES_PER_SECOND
    steps = [("small images", 0.3), *((f"fine-tuning, {name}", trial) for name in names)]
    return [*steps, ("fine-tuning", whole)]
