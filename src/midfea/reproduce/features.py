"""Features of a whole data set for one split, kept on disk by content.

A linear method learned from the training samples sees nothing of a feature vector but its inner
products with theirs, so what is kept is each sample's coordinates in the span of the training features:
exact up to rounding, and 3,060 numbers rather than 43,008 for Caltech-101. One more coordinate says how
far off the span a sample lies, so that lengths stay right too: the neuron-selectivity layer, as
indifferent to rotation, scales its inputs to one length.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midfea import MidFea
from midfea.files import replacing
from midfea.progress import track
from midfea.reproduce.protocols import Indices

VERSION = 3  # of features and evaluation: raise it when the same settings come to mean other numbers
BLOCK = 256
Features = NDArray[np.float32]


def content_key(*parts: Any) -> str:
    """A name for what these values, arrays among them, determine."""
    digest = hashlib.sha256(str(VERSION).encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, list):
            for item in part:
                digest.update(content_key(item).encode())
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def span_features(
    images: Sequence[Any],
    learn: Indices,
    settings: Mapping[str, Any],
    seed: int,
    cache: Path | None,
    *,
    span: Indices | None = None,
) -> Features:
    """MidFea features of all images, learned from some: coordinates in their span, or that of `span`."""
    span = learn if span is None else span
    kept = None
    if cache is not None:
        key = content_key(list(images), learn, span, dict(settings), seed)
        kept = cache / "features" / f"{key}.npy"
        if kept.exists():
            return _whole(np.load(kept), span)
    model = MidFea(**settings, random_state=seed).fit([images[i] for i in learn])
    basis = model.transform([images[i] for i in span])
    product = basis @ basis.T
    values, vectors = np.linalg.eigh(product.astype(np.float64))
    large = values > 1e-6 * values[-1]
    turn = (vectors[:, large] / np.sqrt(values[large])).astype(np.float32)
    out = np.empty((len(images), turn.shape[1]), dtype=np.float32)
    out[span] = product @ turn
    others = np.setdiff1d(np.arange(len(images)), span)
    starts = range(0, len(others), BLOCK)
    for start in track(starts, "test images", len(starts)):
        block = others[start : start + BLOCK]
        out[block] = (model.transform([images[i] for i in block]) @ basis.T) @ turn
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as temporary, temporary.open("wb") as file:
            np.save(file, out)
    return _whole(out, span)


def _whole(coordinates: Features, span: Indices) -> Features:
    """With the length outside the span: features have length 1, samples of the span lie within."""
    outside = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", coordinates, coordinates), 0))
    outside[span] = 0
    return np.column_stack([coordinates, outside]).astype(np.float32)


def raw_pixels(images: Sequence[Any], size: tuple[int, int] | None) -> Features:
    """Pixels in 0..1, the images reduced to one size (height, width) if they need it."""
    if size is not None:
        images = [np.asarray(Image.fromarray(image).resize(size[::-1])) for image in images]
    return np.stack([image.ravel() for image in images]).astype(np.float32) / np.float32(255)
