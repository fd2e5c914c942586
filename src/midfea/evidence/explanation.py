"""`explain`: one answer of a classifier taken apart, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from midfea.engines import Chain
from midfea.evidence.linear import Floats, Neurons, in_codes
from midfea.evidence.spread import seen_box, to_pixels
from midfea.evidence.trace import Traced, all_codes, pooled_codes, trace
from midfea.learning import svm as linear_svm
from midfea.pictures.images import Grey, Images

N_NEAREST = 6
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


@dataclass(frozen=True)
class Explanation:
    """Why a classifier gave an image its decision value for one class.

    decision = evidence.sum() + intercept + baseline + network_share + remainder

    Attributes
    ----------
    image : (height, width), grey, in the size that the model sees
    classes, probabilities : (n_classes,) each
    answer : the most probable class
    label : the class whose decision value is explained
    decision : that value. With two classes it is `decision_function`, its sign turned for the first.
    evidence : (height, width), what each pixel adds to the decision value
    intercept : the SVM's
    baseline : what does not depend on the image's codes: the mean of PCA, and with a
        neuron-selectivity layer the usual activations of its neurons
    network_share : what a fine-tuned network adds; the map does not cover it
    remainder : what rounding leaves
    words_for, words_against : the words with the largest contributions, largest first
    neurons : of the neuron-selectivity layer, or None
    nearest : training images, if any were given
    maps : the outputs of every stage, see `feature_maps`; computed when first asked for
    """

    image: Grey
    classes: NDArray[Any]
    probabilities: Floats
    answer: Any
    label: Any
    decision: float
    evidence: Floats
    intercept: float
    baseline: float
    network_share: float
    remainder: float
    words_for: tuple[Word, ...]
    words_against: tuple[Word, ...]
    neurons: Neurons | None
    nearest: Nearest | None
    make_maps: Callable[[], dict[str, NDArray[Any]]] = field(repr=False)

    @cached_property
    def maps(self) -> dict[str, NDArray[Any]]:
        """The outputs of every stage."""
        return self.make_maps()


def explain(
    model: Any, image: Any, label: Any = None, n_words: int = 8, training: Any = None
) -> Explanation:
    """Take a fitted `MidFeaClassifier`'s answer apart; see `MidFeaClassifier.explain`."""
    check_is_fitted(model, "coef_")
    images = Images([image])
    grey = model._checked_grey(images, 0)
    with model._bars():
        values = np.asarray(model.decision_function(images), dtype=np.float64)
        features = model._features(images)
        probabilities = linear_svm.probabilities(values, model.temperature_)[0]
        answer = model.classes_[probabilities.argmax()]
        chosen = _index_of(model, answer if label is None else label)
        row, sign = (0, 1.0 if chosen == 1 else -1.0) if len(model.coef_) == 1 else (chosen, 1.0)
        # A fine-tuned network's answers are added to the SVM's, which count by this factor.
        factor = sign if model.network_ is None else sign * float(model.network_weights_[0])
        margin = factor * float(np.ravel(model._margins(features))[row])
        decision = sign * float(np.ravel(values)[row])

        found = [(chain, all_codes(plane, chain, model._engine())) for chain, plane in seen(model, grey)]
        codes = [pooled_codes(each, chain) for chain, each in found]
        coef = factor * model.coef_[row].astype(np.float64)
        linear, neurons = in_codes(model, np.concatenate(codes), coef)
        stops = np.cumsum([len(each) for each in codes])[:-1]
        traced = [
            (chain, trace(each, chain, slopes))
            for (chain, each), slopes in zip(found, np.split(linear.slopes, stops), strict=True)
        ]
        evidence = np.zeros(grey.shape)
        for chain, scales in traced:
            for scale in scales:
                evidence += to_pixels(scale.by_descriptor, scale.codes.copy, chain, grey.shape)
        intercept = factor * float(model.intercept_[row])
        return Explanation(
            image=grey,
            classes=model.classes_,
            probabilities=probabilities,
            answer=answer,
            label=model.classes_[chosen],
            decision=decision,
            evidence=evidence,
            intercept=intercept,
            baseline=linear.baseline,
            network_share=decision - margin if model.network_ is not None else 0.0,
            remainder=margin - float(evidence.sum()) - intercept - linear.baseline,
            words_for=words(traced, n_words, grey.shape, 1),
            words_against=words(traced, n_words, grey.shape, -1),
            neurons=neurons,
            nearest=None if training is None else nearest(model, features[0], training),
            make_maps=partial(model.feature_maps, image),
        )


def seen(model: Any, grey: Grey) -> list[tuple[Chain, Grey]]:
    """The model's chains and the plane that each sees, in the order of the pooled codes."""
    return [(model._chain, grey)]


def _index_of(model: Any, label: Any) -> int:
    known = np.flatnonzero(model.classes_ == label)
    if not len(known):  # the command hands over text
        known = np.flatnonzero(model.classes_.astype(str) == str(label))
    if not len(known):
        listed = ", ".join(map(str, model.classes_))
        raise ValueError(f"the model knows no class {label!r}, only {listed}")
    return int(known[0])


def words(
    traced: Sequence[tuple[Chain, list[Traced]]], n_words: int, shape: tuple[int, ...], sign: int
) -> tuple[Word, ...]:
    """The words that add most to the decision value (`sign` 1), or take most from it (-1).

    The words of a second chain are numbered after those of the first.
    """
    totals = [
        sum(
            np.bincount(s.codes.words.ravel(), s.by_code.ravel(), minlength=len(chain.words()))
            for s in scales
        )
        for chain, scales in traced
    ]
    total = sign * np.concatenate(totals)
    largest = [int(w) for w in np.argsort(-total, kind="stable")[:n_words] if total[w] > 0]
    return tuple(Word(w, sign * float(total[w]), *_places(traced, w, shape, sign)) for w in largest)


def _places(
    traced: Sequence[tuple[Chain, list[Traced]]], word: int, shape: tuple[int, ...], sign: int
) -> tuple[NDArray[np.int64], Floats]:
    """What the descriptors see whose shares of a word have that sign, and the shares."""
    boxes, shares = [], []
    for chain, scales in traced:
        for scale in scales:
            by_place = np.where(scale.codes.words == word, scale.by_code, 0.0).sum(axis=-1)
            for place in np.argwhere(sign * by_place > 0):
                boxes.append(seen_box(place, scale.codes.copy, chain, shape))
                shares.append(by_place[tuple(place)])
        word -= len(chain.words())
    order = np.argsort(-np.abs(shares), kind="stable")[:N_PLACES]
    return np.array(boxes, dtype=np.int64)[order], np.array(shares)[order]


def nearest(model: Any, features: NDArray[Any], training: Any) -> Nearest:
    """The nearest of training images, or of the rows of their feature matrix."""
    matrix = np.asarray(training) if isinstance(training, np.ndarray) and training.ndim == 2 else None
    if matrix is None:
        matrix = model._features(Images(training))
    if matrix.shape[1] != len(features):
        raise ValueError(
            f"a feature matrix of {matrix.shape[1]} columns was given where the model has "
            f"{len(features)} features: give training images, or features made by this model"
        )
    distances = np.linalg.norm(matrix - features, axis=1).astype(np.float64)
    indices = np.argsort(distances, kind="stable")[:N_NEAREST]
    return Nearest(indices, distances[indices])
