"""`LinearHead`: the linear SVM with calibrated probabilities, and how it is fitted and validated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from midfea.arrays import to_numpy
from midfea.learning.class_weights import Weights
from midfea.learning.folds import Indices, splits
from midfea.learning.newton import MAX_GRAM_SAMPLES, gram, gram_product
from midfea.learning.svm import Put, class_signs, fit_linear_svm, solve, solve_gram
from midfea.learning.validation import Validation, no_validation
from midfea.parallel import in_parallel
from midfea.progress import track

Features = NDArray[np.float32]
Activations = Callable[[Features], Features]
LearnLayer = Callable[[Features, Indices], Activations]  # features and labels to a layer

C_CANDIDATES = (0.1, 1.0, 10.0, 100.0)
MAX_SVMS_AT_ONCE = 4  # each has a part of the Gram matrix for itself


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A fitted linear SVM, one class against the rest.

    Attributes
    ----------
    coef, intercept : (n_classes, p) and (n_classes,); one row for two classes, for the second
    C : penalty of the errors in training
    logit_scale : softmax(logit_scale * scores) are the probabilities
    """

    coef: NDArray[np.float32]
    intercept: NDArray[np.float32]
    C: float
    logit_scale: float

    def scores(self, inputs: Features) -> NDArray[np.float32]:
        """Decision values (n, n_classes) of inputs (n, p)."""
        return two_columns(inputs @ self.coef.T + self.intercept)


def two_columns(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """A column for each class; the single column of two classes speaks for the second."""
    return np.hstack([-values / 2, values / 2]) if values.shape[1] == 1 else values


def fit_linear_head(
    features: Features,
    y: Indices,
    C: float,
    logit_scale: float,
    put: Put,
    class_weights: Weights | None = None,
) -> LinearHead:
    """The head for all samples, once C and the logit scale are known."""
    penalty = C if class_weights is None else np.float32(C) * class_weights[y]
    weights, intercept = fit_linear_svm(features, y, penalty, put)
    return LinearHead(np.ascontiguousarray(weights.T), intercept, C, logit_scale)


@dataclass(frozen=True, eq=False)
class ValidatedC:
    """What validation says of the SVM: the best C, its logit scale, and the scores behind both."""

    C: float
    logit_scale: float
    scores: NDArray[np.float32]  # (n, n_classes), of samples held out; NaN for others

    def record(self, y: Indices, folds: Indices, groups: Indices | None) -> Validation:
        """The validation of the calibrated SVM alone."""
        indices = np.flatnonzero(np.isfinite(self.scores[:, 0]))
        if not len(indices):
            return no_validation(self.scores.shape[1])
        scores = self.logit_scale * self.scores[indices].astype(np.float64)
        return Validation.of(indices, scores, y, folds, int(folds.max()) + 1, groups)


def validate_C(
    features: Features,
    y: Indices,
    candidates: Sequence[float],
    folds: Indices,
    learn_layer: LearnLayer | None = None,
    put: Put = np.asarray,
    class_weights: Weights | None = None,
) -> ValidatedC:
    """The C with the most correct predictions of samples held out; the first of equally good ones."""
    scores = validation_scores(features, y, candidates, folds, learn_layer, put, class_weights)
    best = int(np.argmax([count_correct(values, y, class_weights) for values in scores]))
    scale, _ = calibrate(scores[best], y, n_uniform=1, class_weights=class_weights)
    return ValidatedC(float(candidates[best]), scale, scores[best])


def count_correct(
    scores: NDArray[np.float32], y: Indices, class_weights: Weights | None = None
) -> float:
    """Correct predictions among the samples held out, each times the weight of its class."""
    correct = y[(scores.argmax(axis=1) == y) & np.isfinite(scores[:, 0])]
    return float(len(correct) if class_weights is None else class_weights[correct].sum())


def validation_scores(
    features: Features,
    y: Indices,
    candidates: Sequence[float],
    folds: Indices,
    learn_layer: LearnLayer | None = None,
    put: Put = np.asarray,
    class_weights: Weights | None = None,
) -> NDArray[np.float32]:
    """Scores of each sample by SVMs trained without its fold, (n_candidates, n, n_classes).

    NaN for samples that are always in training. With `learn_layer`, a layer too is learned anew without
    the samples held out. There may be more features than labels: those of augmented images follow, in
    the order of the samples, and are trained on where their sample is.
    """
    parts = splits(folds)
    scores = np.full((len(candidates), len(y), int(y.max()) + 1), np.nan, dtype=np.float32)
    work = split_scores(features, y, candidates, parts, learn_layer, put, class_weights)
    for (_, test), values in zip(parts, track(work, "classifier", len(parts)), strict=True):
        scores[:, test] = values
    return scores


def split_scores(
    features: Features,
    y: Indices,
    candidates: Sequence[float],
    parts: Sequence[tuple[Indices, Indices]],
    learn_layer: LearnLayer | None = None,
    put: Put = np.asarray,
    class_weights: Weights | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Scores of each test part by SVMs of its training part, (n_candidates, n_test, n_classes).

    All share one Gram matrix where that fits into memory, and several are solved at the same time.
    """
    n_times = len(features) // len(y)
    signs = np.tile(class_signs(y), (n_times, 1))
    shared = gram(put(features)) if len(features) <= MAX_GRAM_SAMPLES and learn_layer is None else None

    def scores(i: int) -> NDArray[np.float32]:
        train, test = parts[i]
        rows = np.concatenate([train + k * len(y) for k in range(n_times)])
        targets, by_C, alpha = put(signs[rows]), [], None
        weights = 1.0 if class_weights is None else put(np.tile(class_weights[y[train]], n_times))
        if shared is not None:
            within, across = shared[np.ix_(rows, rows)], shared[np.ix_(test, rows)]
        else:
            labels = np.tile(y[train], n_times)
            layer = learn_layer(features[rows], labels) if learn_layer else np.asarray
            inputs, others = (put(layer(features[part])) for part in (rows, test))
            product = gram_product(inputs)
        for C in candidates:
            if shared is not None:
                alpha = solve_gram(within, targets, C * weights, alpha)
                values = across @ alpha
            else:
                alpha = solve(product, targets, C * weights)
                values = others @ (inputs.T @ alpha) + alpha.sum(axis=0)
            by_C.append(two_columns(to_numpy(values)))
        return np.stack(by_C)

    n_fitting = MAX_GRAM_SAMPLES**2 // (2 * len(features) ** 2)  # parts of the Gram matrix in memory
    parallel = isinstance(shared, np.ndarray)
    n_threads = min(int(joblib.effective_n_jobs(-1)), MAX_SVMS_AT_ONCE, n_fitting) if parallel else 1
    return in_parallel(scores, range(len(parts)), max(1, n_threads))


def calibrate(
    scores: NDArray[np.float32],
    y: Indices,
    n_uniform: int = 0,
    class_weights: Weights | None = None,
) -> tuple[float, float]:
    """The logit scale that makes softmax(scale * scores) most likely, and the mean loss with it.

    One number, so that the most probable class is always the predicted one. 1 and infinity if nothing
    was held out. `n_uniform` pseudo-samples with a uniform label keep few samples, all of them correct,
    from making every probability 0 or 1.
    """
    known = np.isfinite(scores).all(axis=1)
    if not known.any():
        return 1.0, np.inf
    logits, y = scores[known].astype(np.float64), y[known]
    counts = np.ones(len(y)) if class_weights is None else class_weights[y].astype(np.float64)

    def loss(log_scale: float) -> float:
        scaled = np.exp(log_scale) * logits
        total = logsumexp(scaled, axis=1)
        own = counts @ (total - scaled[np.arange(len(y)), y])
        uniform = counts @ (total - scaled.mean(axis=1)) / counts.sum()
        return float((own + n_uniform * uniform) / (counts.sum() + n_uniform))

    result = minimize_scalar(loss, bounds=(-5, 5), method="bounded")
    return float(np.exp(result.x)), float(result.fun)
