"""The fine-tuned network in ONNX: `midfea.learning.network.model`."""

from __future__ import annotations

import numpy as np

from midfea.export.graph import Value
from midfea.export.pixels import describe, unit_length
from midfea.learning.network.model import PIXELS, SIDE, Floats, Network
from midfea.pictures.picture import NO_COLOUR

LAST = np.iinfo(np.int64).max


def log_probabilities(planes: list[Value], network: Network) -> list[Value]:
    """`Network.log_probabilities_of_square`: for each classifier, (n_classes,)."""
    g = planes[0].graph
    by_classifier = zip(*(scores(view, network) for view in _views(planes, network)), strict=True)
    return [
        g.op("LogSoftmax", g.join(rows, np.float32), axis=1).reduce("Mean", 0).reshape(-1)
        for rows in by_classifier
    ]


def _views(planes: list[Value], network: Network) -> list[list[Value]]:
    """The image, perhaps shifted, and mirror images."""
    frame = np.full(4, network.view_shift, dtype=np.int64)
    framed = [plane.graph.op("Pad", plane, frame, mode="reflect") for plane in planes]
    views = [
        [plane.cut([0, 1], [at, at], [at + SIDE, at + SIDE]) for plane in framed]
        for at in network.places()
    ]
    if network.mirror:
        views += [[plane.cut([1], [-1], [-LAST], [-1]) for plane in view] for view in views]
    return views


def scores(planes: list[Value], network: Network) -> list[Value]:
    """`Network.scores`, for each classifier (1, n_classes)."""
    g = planes[0].graph
    step = int(network.step)
    descriptors = describe(planes[0], network.chain).cut((0, 1), (0, 0), (LAST, LAST), (step, step))
    likeness = descriptors @ network.words.T
    codes = g.op("Softmax", likeness * float(network.logit_scale) + network.bias, axis=2)
    codes = codes.transpose(2, 0, 1).unsqueeze(0)  # as convolutions want it
    maps = _path(planes, network)
    side = -(-network.chain.grid((SIDE, SIDE))[0] // step)
    parts = [unit_length(_pooled(codes, side)), unit_length(_pooled(maps, SIDE // 8))]
    features = g.join(parts, np.float32, axis=1)
    maps = _layer(_shrunk(maps, 2), network.fourth, network.fourth_bias)
    means = maps.reduce("Mean", 2, 3).reshape(1, -1)
    return [
        features @ network.weights + network.intercept,
        means @ network.whole + network.whole_intercept,
    ]


def _path(planes: list[Value], network: Network) -> Value:
    """From the pixels to the layer before the last."""
    g = planes[0].graph
    grey, *colours = (plane.unsqueeze(0, 1) for plane in planes)
    standard = [(grey - 127) / 64, *((plane - NO_COLOUR) / 32 for plane in colours)]
    maps = g.join(standard, np.float32, axis=1)
    maps = _shrunk(_layer(maps, network.pixels, network.pixels_bias, PIXELS, 2), 2)
    maps = _layer(maps, network.colours, network.colours_bias)
    maps = g.op("AveragePool", maps, kernel_shape=[2, 2])
    maps = _shrunk(_layer(maps, network.second, network.second_bias), 2)
    return _layer(maps, network.third, network.third_bias)


def _layer(maps: Value, weights: Floats, bias: Floats, size: int = 3, step: int = 1) -> Value:
    g = maps.graph
    kernels = weights.reshape(size, size, -1, weights.shape[1]).transpose(3, 2, 0, 1)
    maps = g.op("Conv", maps, kernels, bias, pads=[size // 2] * 4, strides=[step, step])
    return g.op("Relu", maps)


def _shrunk(maps: Value, factor: int) -> Value:
    sides = [factor, factor]
    return maps.graph.op("MaxPool", maps, kernel_shape=sides, strides=sides, ceil_mode=1)


def _pooled(maps: Value, side: int) -> Value:
    """The cells of a 1-2-4 pyramid in one row, cell by cell: (1, n)."""
    fine = _shrunk(maps, -(-side // 4))
    coarse = _shrunk(fine, 2)
    levels = (_shrunk(coarse, 2), coarse, fine)
    rows = [level.transpose(0, 2, 3, 1).reshape(1, -1) for level in levels]
    return maps.graph.join(rows, np.float32, axis=1)
