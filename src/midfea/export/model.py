"""The parts of a fitted model in ONNX: images, their features, the NS layer and the heads."""

from __future__ import annotations

import numpy as np
import onnx

from midfea import checksum
from midfea.engines.walk import pooled_codes
from midfea.export import network
from midfea.export.belonging import belonging_of
from midfea.export.chain import OnnxChain, project
from midfea.export.colours import OnnxColours
from midfea.export.graph import Graph, Shape, Value
from midfea.export.pixels import Size, colour_planes, resizing, size_within, to_grey
from midfea.export.runtime import METADATA_KEY, Description
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.network.head import NetworkHead
from midfea.learning.network.model import SIDE
from midfea.learning.ns_layer import INPUT_LENGTH, NSLayer
from midfea.learning.parts import ClassifierParts, RegressorParts


def build(parts: ClassifierParts | RegressorParts) -> onnx.ModelProto:
    """See `midfea.export.to_onnx`."""
    g = Graph()
    results: dict[str, tuple[Value, Shape]]
    images = Value(g, "images", np.uint8)
    extractor = parts.extractor
    sides = extractor.max_side, extractor.chain.min_image_side
    if isinstance(parts, ClassifierParts):
        description = Description("MidFeaClassifier", *sides, parts.classes)
        features, *by_network = _answers(images, extractor, parts.network)
        logits = _logits(features, by_network, parts)
        results = {"probabilities": (g.op("Softmax", logits, axis=1), ("n", len(parts.classes)))}
        if parts.belonging is not None:
            results["belonging"] = belonging_of(logits, features, parts.belonging), ("n",)
    else:
        description = Description("MidFeaRegressor", *sides, np.array([]))
        (features,) = _answers(images, extractor, None)
        results = {"numbers": (_numbers(features, parts), ("n",))}
    about = {METADATA_KEY: description.to_json()}
    made = g.model(images, ("n", "height", "width", 3), results, about)
    return onnx.ModelProto.FromString(checksum.seal(made.SerializeToString()))


def _answers(images: Value, extractor: FeatureExtractor, head: NetworkHead | None) -> list[Value]:
    """Features (n, n_features), and the log-probabilities of the network's classifiers, if it is there.

    Images go one by one, so that memory does not grow with their number; what depends on their size
    alone is made before.
    """
    g = images.graph
    given = Size(images.side(1), images.side(2))
    size = size_within(given, extractor.max_side)
    rounded = extractor.chain.rounded
    reduce = None if extractor.max_side is None else resizing(given, size, rounded)
    chain = OnnxChain(extractor.chain, size)
    colours = None if extractor.colour is None else OnnxColours(extractor.colour, size)
    n_planes = 1 if head is None else head.network.n_planes
    if head is not None:
        side = g.constant(np.array([SIDE], dtype=np.int64))
        to_square = resizing(size, Size(side, side), bool(head.network.rounded))

    def one_image(image: Value) -> list[Value]:
        planes = [to_grey(image)]
        if n_planes == 3 or colours is not None:
            planes += colour_planes(image)
        if reduce is not None:
            planes = [reduce.apply(plane) for plane in planes]
        codes = pooled_codes(planes[0], chain).reshape(-1)
        features = project(codes, extractor.projection)
        if colours is not None:
            features = colours.beside(features, planes)
        if head is None:
            return [features]
        squares = [to_square.apply(plane) for plane in planes[:n_planes]]
        return [features, *network.log_probabilities(squares, head.network)]

    return g.scan(one_image, images)


def _activations(features: Value, layer: NSLayer | None) -> Value:
    """`NSLayer.activations`; the features themselves without a layer."""
    if layer is None:
        return features
    g = features.graph
    centred = features - layer.center.astype(np.float32)
    lengths = g.op("Sqrt", centred.reduce("SumSquare", 1))
    centred = centred * (INPUT_LENGTH / g.op("Max", lengths, float(np.finfo(np.float32).tiny)))
    return g.op("Sigmoid", centred @ layer.W.T.astype(np.float32) + layer.b.astype(np.float32))


def _logits(features: Value, by_network: list[Value], parts: ClassifierParts) -> Value:
    """`ClassifierParts.logits` of the joint scores."""
    g, head = features.graph, parts.head
    scores = _activations(features, parts.ns_layer) @ head.coef.T + head.intercept
    if len(parts.classes) == 2:
        scores = g.join([scores * -0.5, scores * 0.5], np.float32, axis=1)
    if parts.network is None:
        return scores * head.logit_scale
    linear_weight, *weights = map(float, parts.network.weights)
    scores = scores * linear_weight
    for log_probabilities, weight in zip(by_network, weights, strict=True):
        scores = scores + log_probabilities * weight
    return scores


def _numbers(features: Value, parts: RegressorParts) -> Value:
    """`RegressorParts.numbers`."""
    inputs = _activations(features, parts.ns_layer).to(np.float64)
    if parts.expectation:
        inputs = inputs / inputs.reduce("Sum", 1)
    numbers = inputs @ parts.coef.astype(np.float64) + parts.intercept
    return numbers.to(np.float32)
