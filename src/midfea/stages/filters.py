"""Low-level filters: k-means on patches of the training images ("Soft Convolution", Section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from midfea.stages.kmeans import kmeans
from midfea.stages.seeds import Seed, generator

FilterMethod = Literal["whitened", "raw"]

# Filters lie on a grid of 2**-14: a float32 inner product with a patch of 8-bit pixels is then free of
# rounding (255 * 3.5 * 2**14 < 2**24), whatever the order of the additions. So every engine sees the
# very same responses, and a flat patch answers with exactly zero.
GRID = 2**14


def learn_filters(
    images: Sequence[NDArray[Any]],
    n_filters: int = 9,
    filter_size: int = 7,
    method: FilterMethod = "whitened",
    *,
    n_patches: int = 50_000,
    random_state: Seed = None,
) -> NDArray[np.float32]:
    """Filters for `soft_convolution`, learned from patches at random places.

    Parameters
    ----------
    images : grey images (height, width), of any sizes
    method : "whitened" takes contrast-normalised patches, whitens them (ZCA), clusters their
        directions and maps the centres back through the whitening: edges and bars of all
        directions, without mean. "raw" takes the centres of the patches as they are, which is the
        paper's wording; most of them differ in brightness only.
    n_patches : at most so many patches in all, spread evenly over the images

    Returns
    -------
    filters : float32 array (n_filters, filter_size, filter_size), each of unit length
    """
    if n_filters < 1 or filter_size < 1:
        raise ValueError(f"n_filters and filter_size must be 1 or more: {n_filters}, {filter_size}")
    rng = generator(random_state)
    patches = sample_patches(images, filter_size, n_patches, rng)
    if method == "raw":
        filters = _best_of(patches, n_filters, rng, spherical=False)
    elif method == "whitened":
        filters = _whitened_filters(patches, n_filters, rng)
    else:
        raise ValueError(f'method is "whitened" or "raw", got {method!r}')
    filters = filters / np.maximum(np.linalg.norm(filters, axis=1, keepdims=True), 1e-12)
    return _on_grid(filters).reshape(n_filters, filter_size, filter_size)


def sample_patches(
    images: Sequence[NDArray[Any]], size: int, n_patches: int, rng: np.random.RandomState
) -> NDArray[np.float32]:
    """About `n_patches` square patches as rows, the same number from each image."""
    images = [image for image in images if min(image.shape) >= size]
    if not images:
        raise ValueError(f"no image is as large as the filters ({size}x{size} pixels)")
    per_image = -(-n_patches // len(images))
    rows = []
    for image in images:
        windows = sliding_window_view(image, (size, size))
        y = rng.randint(windows.shape[0], size=per_image)
        x = rng.randint(windows.shape[1], size=per_image)
        rows.append(windows[y, x].reshape(per_image, -1).astype(np.float32))
    return np.concatenate(rows)[:n_patches] if len(rows) > 1 else rows[0]


def _whitened_filters(
    patches: NDArray[np.float32], n_filters: int, rng: np.random.RandomState
) -> NDArray[Any]:
    if patches.shape[1] < 2:
        raise ValueError("whitened filters of a single pixel have no pattern: use filter_size >= 2")
    patches = patches - patches.mean(axis=1, keepdims=True)
    contrast = patches.std(axis=1)
    textured = contrast > 1e-6 * max(float(np.abs(patches).max()), 1e-12)
    patches, contrast = patches[textured], contrast[textured]
    if len(patches) < n_filters:
        raise ValueError(
            "the images are (nearly) constant: no filters can be learned from them. "
            "Check that they were read correctly"
        )
    # The second term keeps faint noise from being blown up to full contrast.
    patches /= contrast[:, None] + 0.2 * np.median(contrast)
    values, vectors = np.linalg.eigh(np.cov(patches.T, dtype=np.float64))
    scale = np.sqrt(np.maximum(values, 0) + 0.1 * values.mean())
    whitening = ((vectors / scale) @ vectors.T).astype(np.float32)
    centres = _best_of(patches @ whitening, n_filters, rng, spherical=True)
    # A centre c compared with a whitened patch M p is the filter M c compared with the patch itself.
    filters = centres @ whitening
    return filters - filters.mean(axis=1, keepdims=True)


def _best_of(
    points: NDArray[Any], n_clusters: int, rng: np.random.RandomState, *, spherical: bool
) -> NDArray[np.float32]:
    """The best of a few starts: with nine clusters one unlucky start shows."""
    if len(points) < n_clusters:
        raise ValueError(f"{n_clusters} filters cannot be learned from {len(points)} patches")
    starts = [
        kmeans(points, n_clusters, spherical=spherical, max_iter=50, random_state=rng) for _ in range(3)
    ]
    return max(starts, key=lambda centres: _mean_score(points, centres, spherical))


def _mean_score(points: NDArray[Any], centres: NDArray[Any], spherical: bool) -> float:
    """How well the centres serve the points: the larger, the better."""
    scores = points @ centres.T
    if spherical:
        return float(np.abs(scores).max(axis=1).mean())
    return float((scores - (centres * centres).sum(axis=1) / 2).max(axis=1).mean())


def _on_grid(filters: NDArray[Any]) -> NDArray[np.float32]:
    """The filters rounded to multiples of 1 / GRID, keeping their sum (zero stays zero) and length."""
    rounded = np.rint(filters * GRID).astype(np.int64)
    for exact, row in zip(filters, rounded, strict=True):
        excess = int(np.rint(exact.sum() * GRID)) - int(row.sum())
        error = exact * GRID - row
        largest = np.argsort(-error if excess > 0 else error, kind="stable")[: abs(excess)]
        row[largest] += np.sign(excess)
        # One unit moved from pixel j to pixel i changes the squared length by 2 (q_i - q_j) + 2.
        for _ in range(100):
            missing = GRID**2 - int((row * row).sum())
            change = 2 * (row[:, None] - row[None, :]) + 2
            np.fill_diagonal(change, 0)
            i, j = np.unravel_index(np.abs(missing - change).argmin(), change.shape)
            if i == j:
                break
            row[i] += 1
            row[j] -= 1
    return (rounded / GRID).astype(np.float32)
