"""Features of a whole data set for one split, kept on disk.

A linear method learned from the training samples sees nothing of a feature vector but its inner
products with theirs, so what is kept is each sample's coordinates in the span of the training features:
exact up to rounding, and 3,060 numbers rather than 43,008 for Caltech-101. One more coordinate says how
far off the span a sample lies, so that lengths stay right too: the neuron-selectivity layer, as
indifferent to rotation, scales its inputs to one length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midfea import MidFea
from midfea.files import replacing
from midfea.learning.head import Features
from midfea.progress import track
from midfea.reproduce.protocols import PROTOCOLS, Indices, Split
from midfea.stages import unit_length
from midfea.trials import content_key

BLOCK = 256  # images


def span_features(
    images: Sequence[Any],
    learn: Indices,
    settings: Mapping[str, Any],
    seed: int,
    cache: Path | None,
    *,
    span: Indices | None = None,
) -> Features:
    """MidFea features of all images, learned from some: coordinates in the span of `span`."""
    span = learn if span is None else span
    if cache is None:
        return _whole(_coordinates(images, learn, settings, seed, span), span)
    key = content_key([np.asarray(image) for image in images], learn, span, dict(settings), seed)
    path = cache / "features" / f"{key}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, _coordinates(images, learn, settings, seed, span))
    return _whole(np.load(path), span)


def _coordinates(
    images: Sequence[Any], learn: Indices, settings: Mapping[str, Any], seed: int, span: Indices
) -> Features:
    model = MidFea(**settings, random_state=seed).fit([images[i] for i in learn])
    basis = model.transform([images[i] for i in span])
    product = basis @ basis.T
    values, vectors = np.linalg.eigh(product.astype(np.float64))
    large = values > 1e-6 * values[-1]
    rotation = (vectors[:, large] / np.sqrt(values[large])).astype(np.float32)
    out = np.empty((len(images), rotation.shape[1]), dtype=np.float32)
    out[span] = product @ rotation
    others = np.setdiff1d(np.arange(len(images)), span)
    starts = range(0, len(others), BLOCK)
    for start in track(starts, "test images", len(starts)):
        block = others[start : start + BLOCK]
        out[block] = (model.transform([images[i] for i in block]) @ basis.T) @ rotation
    return out


def _whole(coordinates: Features, span: Indices) -> Features:
    """With the length outside the span: features have length 1, samples of the span lie within."""
    outside = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", coordinates, coordinates), 0))
    outside[span] = 0
    return np.column_stack([coordinates, outside]).astype(np.float32)


def first_split(name: str, data: Path, seed: int, cache: Path | None) -> tuple[Any, Split, Features]:
    """Of a protocol: its data, its first split, and the features of the row "MidFea" for that."""
    protocol = PROTOCOLS[name]
    loaded = protocol.load(data)
    split = protocol.splits(loaded, 1, seed)[0]
    settings = next(method.settings for method in protocol.methods if method.name == "MidFea")
    assert settings is not None
    return loaded, split, span_features(loaded.images, split[0], settings, seed, cache)


def randomly_projected(x: Features, n_components: int, seed: int) -> Features:
    """x times a Gaussian matrix, rows of unit length: "random faces", if x holds faces' pixels."""
    matrix = np.random.RandomState(seed).normal(size=(x.shape[1], n_components)).astype(np.float32)
    return unit_length(x @ matrix)
