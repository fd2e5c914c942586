"""`learning.belonging` in ONNX: how much an image looks like images of the classes."""

from __future__ import annotations

import numpy as np

from midfea.export.graph import Value
from midfea.learning.belonging import FEATURE_PRICE, USUAL_DEVIATIONS, Belonging, ScoreShape


def belonging_of(logits: Value, features: Value, fitted: Belonging) -> Value:
    """`Belonging.of`, (n,) float32, of logits (n, k) and features (n, p)."""
    g = logits.graph
    measures = [*_score_measures(logits.to(np.float64), fitted.scores), _residuals(features, fitted)]
    if fitted.against is not None:
        measures.append((features @ fitted.against[:-1, None] + fitted.against[-1:]).to(np.float64))
    z = [
        (measure - float(median)) * float(scale)
        for measure, median, scale in zip(measures, fitted.medians, fitted.scales, strict=True)
    ]
    unusual = g.op("Relu", g.op("Abs", z[2]) - USUAL_DEVIATIONS)
    values = (z[0] + z[1]) * 0.5 - unusual * unusual * FEATURE_PRICE
    if fitted.against is not None:
        values = values + z[3]
    above = g.constant(fitted.reference[None]) > values  # (n, reference)
    count = len(fitted.reference) - above.to(np.float64).reduce("Sum", 1, keep=False)
    return ((count + 1.0) * (1 / (1 + len(fitted.reference)))).to(np.float32)


def _score_measures(scores: Value, shape: ScoreShape) -> list[Value]:
    """`ScoreShape.measures`: columns (n, 1)."""
    g = scores.graph
    inside = (scores - shape.mean) @ shape.within
    squares, own = inside.reduce("SumSquare", 1), np.square(shape.centres).sum(axis=1)
    products = inside @ np.ascontiguousarray(shape.centres.T)
    lengths = g.op("Sqrt", squares) * np.sqrt(own)
    cosines = products / g.op("Max", lengths, 1e-12)
    distances = (squares + own - products * 2.0).reduce("Min", 1)
    background = ((scores - shape.total_mean) @ shape.total).reduce("SumSquare", 1)
    return [cosines.reduce("Max", 1), background - distances]


def _residuals(features: Value, fitted: Belonging) -> Value:
    """`FeatureShape.residuals`, (n, 1)."""
    mean, directions = (a.astype(np.float64) for a in (fitted.features.mean, fitted.features.directions))
    wide = features.to(np.float64)
    along = wide @ directions - mean @ directions
    return (wide - mean).reduce("SumSquare", 1) - along.reduce("SumSquare", 1)
