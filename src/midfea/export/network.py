"""The fine-tuned network in ONNX: `midfea.learning.network`."""

from __future__ import annotations

import numpy as np

from midfea.export.descriptors import describe
from midfea.export.graph import Floats, Value
from midfea.images import NEUTRAL
from midfea.learning.network import PIXELS, SIDE, STEP, Network

LAST = np.iinfo(np.int64).max


def log_probabilities(planes: list[Value], network: Network) -> Value:
    """`Network.log_probabilities` of one image of SIDE x SIDE pixels, (1, n_classes)."""
    g = planes[0].graph
    found = [scores(planes, network)]
    if network.mirror:
        found.append(scores([plane.cut([1], [-1], [-LAST], [-1]) for plane in planes], network))
    return g.op("LogSoftmax", g.join(found, np.float32), axis=1).reduce("Mean", 0)


def scores(planes: list[Value], network: Network) -> Value:
    """`Network.scores`, (2, n_classes)."""
    g = planes[0].graph
    descriptors = describe(planes[0], network.chain).cut((0, 1), (0, 0), (LAST, LAST), (STEP, STEP))
    likeness = descriptors @ np.ascontiguousarray(network.words.T)
    codes = g.op("Softmax", likeness * float(network.temperature) + network.bias, axis=2)
    strength = codes.reduce("SumSquare", 2).reduce("Mean")
    maps = (codes / g.op("Sqrt", strength + 1e-9)) @ network.neck
    maps = g.join([_channels_first(maps), _path(planes, network)], np.float32, axis=1)
    maps = _layer(maps, network.second, network.second_bias)
    maps = _layer(_shrunk(maps, 2), network.third, network.third_bias)
    side = -(-network.chain.grid((SIDE, SIDE))[0] // STEP)
    features = g.join(
        [_unit(_pooled(_channels_first(codes), side)), _unit(_pooled(maps, -(-side // 2)))],
        np.float32,
        axis=1,
    )
    means = _layer(_shrunk(maps, 2), network.fourth, network.fourth_bias).reduce("Mean", 2, 3)
    means = means.reshape(1, -1)
    parts = features @ network.weights + network.intercept
    return g.join([parts, means @ network.whole + network.whole_intercept], np.float32)


def _path(planes: list[Value], network: Network) -> Value:
    """`Network._path`: from the pixels, and their colours, to maps with a place for each descriptor."""
    g = planes[0].graph
    grey, *colours = (plane.unsqueeze(0, 1) for plane in planes)
    standard = [(grey - 127) / 64, *((plane - NEUTRAL) / 32 for plane in colours)]
    maps = g.join(standard, np.float32, axis=1)
    maps = _shrunk(_layer(maps, network.pixels, network.pixels_bias, PIXELS, 2), 2)
    maps = _layer(maps, network.colours, network.colours_bias)
    return g.op("AveragePool", maps, kernel_shape=[2, 2])


def _channels_first(maps: Value) -> Value:
    """(height, width, channels) as convolutions want it: (1, channels, height, width)."""
    return maps.transpose(2, 0, 1).unsqueeze(0)


def _layer(maps: Value, weights: Floats, bias: Floats, size: int = 3, step: int = 1) -> Value:
    g = maps.graph
    kernels = weights.reshape(size, size, -1, weights.shape[1]).transpose(3, 2, 0, 1)
    settings = {"pads": [size // 2] * 4, "strides": [step] * 2}
    return g.op("Relu", g.op("Conv", maps, np.ascontiguousarray(kernels), bias, **settings))


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


def _unit(rows: Value) -> Value:
    g = rows.graph
    return rows / g.op("Max", g.op("Sqrt", rows.reduce("SumSquare", 1)), 1e-12)
