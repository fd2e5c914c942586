"""A fitted estimator in ONNX: images, their features, the layer, the classifier."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from midfea import __version__
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.regressor import MidFeaRegressor
from midfea.estimators.selective import LENGTH
from midfea.export import chain, network, pixels
from midfea.export.graph import Graph, Value
from midfea.export.pixels import Size
from midfea.export.runtime import FORMAT
from midfea.learning.network.model import SIDE


def build(model: Any) -> Any:
    """See `midfea.export.to_onnx`."""
    if not isinstance(model, MidFeaClassifier | MidFeaRegressor):
        raise TypeError(
            f"{type(model).__name__} cannot be exported: only MidFeaClassifier and MidFeaRegressor can"
        )
    check_is_fitted(model, "coef_")
    g = Graph()
    images = Value(g, "images", np.uint8)
    features, answers = _features(images, model)
    about = {"midfea": json.dumps(describe(model))}
    shape = ("n", "height", "width", 3)
    if isinstance(model, MidFeaRegressor):
        return g.model(images, shape, _numbers(features, model), "numbers", ("n",), about)
    result = _probabilities(features, answers, model)
    return g.model(images, shape, result, "probabilities", ("n", len(model.classes_)), about)


def describe(model: Any) -> dict[str, Any]:
    """What a program that runs the model may want to know."""
    about = {
        "format": FORMAT,
        "version": __version__,
        "class": type(model).__name__,
        "max_side": model.settings_["max_side"],
        "min_side": model.min_side,
    }
    if isinstance(model, MidFeaClassifier):
        tuned = getattr(model, "network_", None)
        about |= {
            "classes": model.classes_.tolist(),
            "classes_kind": model.classes_.dtype.kind,
            "colour": tuned is not None and tuned.n_planes == 3,
        }
    return about


def _features(images: Value, model: Any) -> tuple[Value, list[Value]]:
    """Features (n, n_features), and the log-probabilities of the fine-tuned network, if there is one.

    Images go one by one, so that memory does not grow with their number; what depends on their size
    alone is made before.
    """
    g = images.graph
    given = Size(images.side(1), images.side(2))
    size = pixels.size_within(given, model.settings_["max_side"])
    weights = None if model.settings_["max_side"] is None else pixels.resizing(given, size)
    scales = chain.scales_of(size, model._chain)
    tuned = getattr(model, "network_", None)
    if tuned is not None:
        side = g.constant(np.array([SIDE], dtype=np.int64))
        to_square = pixels.resizing(size, Size(side, side))
    sparse = sp.issparse(model.projection_)

    def one_image(image: Value) -> list[Value]:
        grey = pixels.to_grey(image)
        if weights is not None:
            grey = pixels.resize(grey, weights)
        codes = chain.pooled(grey, scales, model._chain).reshape(-1)
        results = [chain.project_sparse(codes, model.projection_) if sparse else codes]
        if tuned is not None:
            colours = pixels.to_opponents(image) if tuned.n_planes == 3 else []
            if weights is not None:
                colours = [pixels.resize(plane, weights) for plane in colours]
            squares = [pixels.resize(plane, to_square) for plane in (grey, *colours)]
            results += network.log_probabilities(squares, tuned)
        return results

    codes, *answers = g.scan(one_image, images)
    features = chain.project(codes, None if sparse else model.projection_, model.projection_mean_)
    return features, answers


def _activations(features: Value, model: Any) -> Value:
    """`estimators.selective.activations`."""
    layer = model.selectivity_
    if layer is None:
        return features
    g = features.graph
    features = features - layer.center_.astype(np.float32)
    lengths = g.op("Sqrt", features.reduce("SumSquare", 1))
    features = features * (LENGTH / g.op("Max", lengths, np.finfo(np.float32).tiny))
    weights = np.ascontiguousarray(layer.W_.T.astype(np.float32))
    return g.op("Sigmoid", features @ weights + layer.b_.astype(np.float32))


def _linear(features: Value, model: Any) -> Value:
    coef = np.atleast_2d(model.coef_).T.astype(np.float32)
    return _activations(features, model) @ np.ascontiguousarray(coef) + np.ravel(
        model.intercept_
    ).astype(np.float32)


def _probabilities(features: Value, answers: list[Value], model: Any) -> Value:
    g = features.graph
    scores = _linear(features, model)
    if len(model.classes_) == 2:  # one column speaks for the second against the first
        scores = g.join([scores * -0.5, scores * 0.5], np.float32, axis=1)
    if answers:
        svm, *others = map(float, model.network_weights_)
        scores = scores * svm
        for answer, weight in zip(answers, others, strict=True):
            scores = scores + answer * weight
    return g.op("Softmax", scores * float(model.temperature_), axis=1)


def _numbers(features: Value, model: Any) -> Value:
    g = features.graph
    if model.settings_["regression"] == "expectation":
        inputs = _activations(features, model).to(np.float64)
        numbers = (inputs @ model.coef_[:, None].astype(np.float64)) / inputs.reduce("Sum", 1)
        numbers = (numbers + float(model.intercept_)).to(np.float32)
    else:
        numbers = _linear(features, model)
    return g.op("Squeeze", numbers, np.array([1]))
