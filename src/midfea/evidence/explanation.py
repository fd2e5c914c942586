"""`explain`: one prediction of a classifier taken apart, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.engines import Chain
from midfea.evidence.colours import colours_to_pixels
from midfea.evidence.linear import Floats, Neurons, in_codes
from midfea.evidence.spread import seen_box, to_pixels
from midfea.evidence.trace import Traced, pool_scales, trace
from midfea.learning.parts import ClassifierParts
from midfea.pictures.picture import Picture
from midfea.pictures.resize import Grey

N_NEAREST = 6
N_SHOWN = 3  # words on either side, in a line
N_PLACES = 12  # of each word, the weightiest


class Word(NamedTuple):
    """A word of the codebook that spoke for the class, or against it."""

    word: int
    contribution: float  # to the decision value, over all cells
    boxes: NDArray[np.int64]  # (n, 4) what the descriptors see that have it: y0, x0, y1, x1
    shares: Floats  # (n,) their parts of the contribution, the weightiest first


class Nearest(NamedTuple):
    """The training images whose features are most alike, the nearest first."""

    indices: NDArray[np.intp]
    distances: Floats


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a classifier gave an image its decision value for one class.

    decision = evidence.sum() + intercept + baseline + network_share + remainder

    Attributes
    ----------
    image : (height, width), grey, in the size that the model sees
    features : (n_features,), of the image
    classes, probabilities : (n_classes,) each
    predicted : the most probable class
    label : the class whose decision value is explained
    decision : that value. With two classes it is `decision_function`, its sign turned for the first.
    evidence : (height, width), what each pixel adds to the decision value
    colour_share : the part of the evidence that colours make; words make the rest
    intercept : the linear head's
    baseline : what does not depend on the image's codes: the mean of PCA, and with a
        neuron-selectivity layer the usual activations of its neurons
    network_share : what a fine-tuned network adds; the map does not cover it
    remainder : what rounding leaves
    words_for, words_against : the words with the largest contributions, largest first
    neurons : of the neuron-selectivity layer, or None
    nearest : training images, if any were given
    belonging : how much the image looks like images of the classes; None if that is not known
    maps : the outputs of every stage, see `feature_maps`; computed when first asked for
    """

    image: Grey
    features: NDArray[np.float32]
    classes: NDArray[Any]
    probabilities: Floats
    predicted: Any
    label: Any
    decision: float
    evidence: Floats
    colour_share: float
    intercept: float
    baseline: float
    network_share: float
    remainder: float
    words_for: tuple[Word, ...]
    words_against: tuple[Word, ...]
    neurons: Neurons | None
    nearest: Nearest | None
    belonging: float | None
    make_maps: Callable[[], dict[str, NDArray[Any]]]

    def __repr__(self) -> str:
        """Class, probability and decision value, and the words that weigh most."""
        share = dict(zip(self.classes.tolist(), self.probabilities.tolist(), strict=True))
        names = [self.label] if self.label == self.predicted else [self.label, self.predicted]
        label, *predicted = [f"{name} ({share[name]:.1%})" for name in np.asarray(names).tolist()]
        words = [
            f"words {side} "
            + ", ".join(f"{word.word} ({word.contribution:+.3f})" for word in found[:N_SHOWN])
            for side, found in (("for", self.words_for), ("against", self.words_against))
            if found
        ]
        parts = [f"for {label}", *(f"predicted {name}" for name in predicted)]
        return f"<Explanation {'; '.join([*parts, f'decision value {self.decision:.3f}', *words])}>"

    @cached_property
    def maps(self) -> dict[str, NDArray[Any]]:
        """The outputs of every stage."""
        return self.make_maps()


def explain(
    picture: Picture,
    parts: ClassifierParts,
    label: Any = None,
    n_words: int = 8,
    training_features: NDArray[np.float32] | None = None,
) -> Explanation:
    """Take a prediction apart; see `MidFeaClassifier.explain`. The picture is coded once."""
    extractor, chain = parts.extractor, parts.extractor.chain
    scales = extractor.prepared.codes_by_scale(picture.grey)
    pooled = pool_scales(scales, chain)
    features = extractor.features_of(picture, extractor.prepared.project(pooled[None])[0])
    linear_scores = parts.head.scores(parts.head_inputs(features[None]))
    scores = linear_scores.astype(np.float64)
    weight = 1.0
    if parts.network is not None:
        scores = parts.network.scores(linear_scores, [picture], n_threads=1)
        weight = float(parts.network.weights[0])
    probabilities = parts.probabilities(scores)[0]
    belonging = parts.belonging_of(scores, features[None])
    predicted = parts.classes[probabilities.argmax()]
    chosen = _index_of(parts.classes, predicted if label is None else label)
    row, sign = (chosen, 1.0)
    if len(parts.head.coef) == 1:  # one row speaks for the second of two classes
        row, sign = 0, 1.0 if chosen == 1 else -1.0
    decision, from_head = (_decision(values[0], chosen) for values in (scores, weight * linear_scores))

    coef = sign * weight * parts.head.coef[row].astype(np.float64)
    projection, colour = extractor.projection, extractor.colour
    linear = in_codes(pooled, features, coef, projection, parts.ns_layer, colour)
    traced = trace(scales, chain, linear.gradient)
    shape = picture.shape
    evidence = np.zeros(shape)
    for scale in traced:
        evidence += to_pixels(scale.by_descriptor, scale.image, chain, shape)
    of_words = float(evidence.sum())
    if colour is not None:
        evidence += colours_to_pixels(linear.by_colour, picture, colour)
    intercept = sign * weight * float(parts.head.intercept[row])
    return Explanation(
        image=picture.grey,
        features=features,
        classes=parts.classes,
        probabilities=probabilities,
        predicted=predicted,
        label=parts.classes[chosen],
        decision=decision,
        evidence=evidence,
        colour_share=0.0 if colour is None else float(evidence.sum()) - of_words,
        intercept=intercept,
        baseline=linear.baseline,
        network_share=decision - from_head if parts.network is not None else 0.0,
        remainder=from_head - float(evidence.sum()) - intercept - linear.baseline,
        words_for=_words(traced, chain, n_words, shape, 1),
        words_against=_words(traced, chain, n_words, shape, -1),
        neurons=linear.neurons,
        nearest=None if training_features is None else nearest(features, training_features),
        belonging=None if belonging is None else float(belonging[0]),
        make_maps=partial(extractor.stage_outputs, picture),
    )


def _decision(scores: NDArray[Any], chosen: int) -> float:
    """The decision value of a class; of two classes, by how much its score is the larger one."""
    if len(scores) == 2:
        return float(scores[chosen] - scores[1 - chosen])
    return float(scores[chosen])


def _index_of(classes: NDArray[Any], label: Any) -> int:
    known = np.flatnonzero(classes == label)
    if not len(known):  # the command hands over text
        known = np.flatnonzero(classes.astype(str) == str(label))
    if not len(known):
        raise ValueError(f"the model knows no class {label!r}, only {', '.join(map(str, classes))}")
    return int(known[0])


def _words(
    traced: list[Traced], chain: Chain, n_words: int, shape: tuple[int, ...], sign: int
) -> tuple[Word, ...]:
    """The words that add most to the decision value (`sign` 1), or take most from it (-1)."""
    counts = [
        np.bincount(scale.words.ravel(), scale.by_code.ravel(), minlength=len(chain.words))
        for scale in traced
    ]
    total = sign * np.sum(counts, axis=0)
    largest = [int(w) for w in np.argsort(-total, kind="stable")[:n_words] if total[w] > 0]
    return tuple(
        Word(w, sign * float(total[w]), *_places(traced, chain, w, shape, sign)) for w in largest
    )


def _places(
    traced: list[Traced], chain: Chain, word: int, shape: tuple[int, ...], sign: int
) -> tuple[NDArray[np.int64], Floats]:
    """What the descriptors see whose shares of a word have that sign, and the shares."""
    boxes, shares = [], []
    for scale in traced:
        by_place = np.where(scale.words == word, scale.by_code, 0.0).sum(axis=-1)
        for place in np.argwhere(sign * by_place > 0):
            boxes.append(seen_box(place, scale.image, chain, shape))
            shares.append(by_place[tuple(place)])
    order = np.argsort(-np.abs(shares), kind="stable")[:N_PLACES]
    return np.array(boxes, dtype=np.int64)[order], np.array(shares)[order]


def nearest(features: NDArray[np.float32], training_features: NDArray[np.float32]) -> Nearest:
    """The nearest rows of a feature matrix."""
    if training_features.shape[1] != len(features):
        raise ValueError(
            f"a feature matrix of {training_features.shape[1]} columns was given where the model has "
            f"{len(features)} features: give training images, or features made by this model"
        )
    distances = np.linalg.norm(training_features - features, axis=1).astype(np.float64)
    indices = np.argsort(distances, kind="stable")[:N_NEAREST]
    return Nearest(indices, distances[indices])
