"""Descriptors to codes over a codebook of words ("Mid-Level Feature Generation", Section 2.2).

A code is sparse: `words` (..., k), the indices of the words it uses, and `weights` (..., k).
Vector quantization (VQ) is the case of one word with weight one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 1024  # descriptors compared with all words at once


def quantize(descriptors: NDArray[Any], codebook: NDArray[Any]) -> NDArray[np.int32]:
    """Index of the nearest word of each descriptor (the paper's VQ); the first one if two tie.

    Parameters
    ----------
    descriptors : array (..., d)
    codebook : array (n_words, d)

    Returns
    -------
    words : int32 array (...)

    Examples
    --------
    >>> from midfea.stages import quantize
    >>> quantize([[0.9, 0.1], [0.2, 0.7]], [[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0, 1]
    """
    return nearest_words(descriptors, codebook, 1)[..., 0]


def nearest_words(
    descriptors: NDArray[Any], codebook: NDArray[Any], n_neighbors: int
) -> NDArray[np.int32]:
    """Indices of the nearest words of each descriptor, nearest first: (..., n_neighbors)."""
    descriptors = np.asarray(descriptors, dtype=np.float32)
    codebook = np.asarray(codebook, dtype=np.float32)
    if descriptors.shape[-1] != codebook.shape[1]:
        raise ValueError(
            f"descriptors have {descriptors.shape[-1]} components, the words {codebook.shape[1]}"
        )
    if not 1 <= n_neighbors <= len(codebook):
        raise ValueError(f"n_neighbors={n_neighbors} of {len(codebook)} words")
    flat = descriptors.reshape(-1, codebook.shape[1])
    half = np.einsum("ij,ij->i", codebook, codebook) / 2
    words = np.empty((len(flat), n_neighbors), dtype=np.int32)
    for start in range(0, len(flat), BLOCK_SIZE):
        # |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2), so the nearest word has the largest score.
        scores = flat[start : start + BLOCK_SIZE] @ codebook.T - half
        words[start : start + BLOCK_SIZE] = np.argsort(-scores, axis=1, kind="stable")[:, :n_neighbors]
    return words.reshape(*descriptors.shape[:-1], n_neighbors)


def soft_codes(
    descriptors: NDArray[Any], codebook: NDArray[Any], n_neighbors: int = 5, sharpness: float = 10.0
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Localised soft assignment: exp(-sharpness * squared distance) over nearest words, sum one.

    After Liu, Wang and Liu, "In Defense of Soft-Assignment Coding" (ICCV 2011).
    """
    words, differences = _to_neighbors(descriptors, codebook, n_neighbors)
    distances = np.einsum("...kd,...kd->...k", differences, differences)
    weights = np.exp(sharpness * (distances[..., :1] - distances))
    return words, (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def llc_codes(
    descriptors: NDArray[Any],
    codebook: NDArray[Any],
    n_neighbors: int = 5,
    regularization: float = 1e-4,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Locality-constrained linear coding: the nearest words' affine combination closest to x.

    After Wang et al., "Locality-constrained Linear Coding for Image Classification" (CVPR 2010),
    its approximation by nearest neighbours. Weights sum to one and may be negative.
    """
    words, differences = _to_neighbors(descriptors, codebook, n_neighbors)
    gram = np.einsum("...kd,...ld->...kl", differences, differences)
    trace = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    gram += (regularization * trace + 1e-12) * np.eye(n_neighbors)
    weights = np.linalg.solve(gram, np.ones((*gram.shape[:-1], 1)))[..., 0]
    return words, (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def _to_neighbors(
    descriptors: NDArray[Any], codebook: NDArray[Any], n_neighbors: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    words = nearest_words(descriptors, codebook, n_neighbors)
    near = np.asarray(codebook, dtype=np.float64)[words]
    return words, near - np.asarray(descriptors, dtype=np.float64)[..., None, :]
