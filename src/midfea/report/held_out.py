"""What can be said of new images when all labelled ones were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.estimators.classifier import N_FOLDS as N_FITTED_FOLDS
from midfea.estimators.finetuned import N_FOLDS as N_TUNED_FOLDS
from midfea.learning import svm as linear_svm
from midfea.learning import validation as held_out
from midfea.learning.interval import Interval, cross_validated


class HeldOut(NamedTuple):
    """Answers for training images by models that did not see them.

    indices : of the images that were held out
    labels, predicted : class numbers for those
    probabilities : (len(indices), n_classes); NaN if not known
    interval : for the accuracy of the model on new images
    how : in words
    """

    indices: NDArray[np.intp]
    labels: NDArray[np.intp]
    predicted: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    interval: Interval
    how: str


def held_out_answers(model: Any, labels: Any, seed: int, copies: Sequence[Any] | None = None) -> HeldOut:
    """Of a classifier just fitted to images with these labels, with `keep_features` set.

    Images with the same value in `copies` are held out together.

    In ten folds where only the SVM is to be learned anew. A layer of neurons, a network or copies of the
    images take too long for that: what was held out while they were fitted has to do.
    """
    y = np.searchsorted(model.classes_, np.asarray(labels))
    if model.selectivity_ is None and model.network_ is None and not model.settings_["augment"]:
        n_folds = n_used = held_out.n_folds_for(y)
        scores = held_out.held_out_scores(model.training_features_, y, model.C_, seed, n_folds, copies)
        indices = np.flatnonzero(np.isfinite(scores[:, 0]))
        probabilities = linear_svm.probabilities(scores[indices], model.temperature_)
        predicted = scores[indices].argmax(axis=1)
        how = f"each of {len(indices)} images predicted by a model trained without it, {n_folds} folds"
    else:
        indices, probabilities = model.held_out_, model.held_out_probabilities_[model.held_out_]
        predicted = np.searchsorted(model.classes_, model.held_out_predictions_[indices])
        tuned = model.network_ is not None
        n_folds, n_used = (N_TUNED_FOLDS, 1) if tuned else (N_FITTED_FOLDS, N_FITTED_FOLDS)
        how = f"{len(indices)} images predicted by a model trained without them"
    right = int((predicted == y[indices]).sum())
    return HeldOut(
        indices,
        y[indices],
        predicted,
        probabilities,
        cross_validated(right, len(indices), n_folds, n_used),
        how,
    )
