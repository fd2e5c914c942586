"""Dense SIFT in the form of Lazebnik, Schmid and Ponce (CVPR 2006): no keypoints, no OpenCV."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from midfea.pictures.resize import Grey

N_ANGLES = 8
N_BINS = 4  # on each side of a patch
N_VALUES = N_BINS * N_BINS * N_ANGLES
EDGE_SIGMA = 1.0  # pixels: width of the Gaussian whose derivative is the gradient filter
LARGEST_VALUE = 0.2  # of a descriptor of unit length, before it is normalised again
FAST = {"contract", "arcp", "nsz", "reassoc"}  # sums may be reordered

Floats = NDArray[np.float32]


def dense_sift(
    image: Grey, step: int = 6, patch_size: int = 16, threshold: float = 1.0
) -> tuple[Floats, Floats]:
    """SIFT descriptors of the patches on a regular grid, which is centred in the image.

    Gradients by the derivative of a Gaussian; the image goes on beyond its border as at the border.
    Each pixel votes for 8 directions with magnitude * max(cos(difference of the angles), 0)^9, and for
    the nearest of the patch's 4x4 bins with bilinear weights.

    Parameters
    ----------
    image : array (height, width)
        Grey, white at 255.
    step : int, default=6
        Pixels between neighbouring patches.
    patch_size : int, default=16
        Pixels on each side of a patch.
    threshold : float, default=1.0
        Descriptors of this length or more get unit length, no value above 0.2 of it on the way. Shorter
        ones are divided by the threshold: patches with little contrast stay short.

    Returns
    -------
    descriptors : float32 array (n, 128)
        Row of bins, column of bins, direction.
    places : float32 array (n, 2)
        Row and column of the patches' centres in pixels; the image reaches from (0, 0) to its shape.

    References
    ----------
    S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features: Spatial Pyramid Matching for Recognizing
    Natural Scene Categories", CVPR 2006. D. Lowe, "Distinctive Image Features from Scale-Invariant
    Keypoints", IJCV 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.dense_sift import dense_sift
    >>> descriptors, places = dense_sift(np.eye(30) * 255, step=7)
    >>> descriptors.shape, places[0].tolist(), places[-1].tolist()
    ((9, 128), [8.0, 8.0], [22.0, 22.0])
    """
    if step < 1 or patch_size < N_BINS or not threshold > 0:
        raise ValueError(
            f"step={step} must be 1 or more, patch_size={patch_size} {N_BINS} or more, and "
            f"threshold={threshold} above 0"
        )
    if image.ndim != 2:
        raise ValueError(f"a grey image (height, width) is needed, got an array of shape {image.shape}")
    if min(image.shape) < patch_size:
        raise ValueError(
            f"the image has {image.shape[0]}x{image.shape[1]} pixels, one patch needs "
            f"{patch_size}x{patch_size}: leave it out, or choose a smaller patch"
        )
    pixels = np.ascontiguousarray(image, dtype=np.float32) / np.float32(255)
    rows, columns = (grid(length, step, patch_size) for length in image.shape)
    votes = _votes(pixels, *_gradient_filters(), _directions())
    descriptors = _descriptors(votes, rows, columns, _bin_weights(patch_size))
    _normalise(descriptors, np.float32(threshold))
    starts = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    return descriptors, (starts + patch_size / 2).astype(np.float32)


def sift_at_sizes(
    image: Grey, step: int, patch_sizes: Sequence[int], threshold: float = 1.0
) -> tuple[Floats, Floats]:
    """`dense_sift` with patches of several sizes; one that does not fit into the image is left out."""
    sizes = [size for size in patch_sizes if size <= min(image.shape)]
    parts = [
        dense_sift(image, step, size, threshold)
        for size in sizes or [min(patch_sizes)]  # which then says that it is too large
    ]
    return np.concatenate([each for each, _ in parts]), np.concatenate([each for _, each in parts])


def grid(length: int, step: int, patch_size: int) -> NDArray[np.int64]:
    """First pixels of the patches along one side of an image; what is left over lies on both ends."""
    rest = (length - patch_size) % step
    return np.arange(rest // 2, length - patch_size + 1, step)


@lru_cache
def _gradient_filters() -> tuple[Floats, Floats]:
    """A Gaussian and its derivative, which together answer a step from 0 to 1 with about 1."""
    reach = 2 * int(np.ceil(EDGE_SIGMA))
    gauss = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * EDGE_SIGMA**2))
    slope = np.gradient(gauss)
    scale = 2 / (gauss.sum() * np.abs(slope).sum())
    return gauss.astype(np.float32), (scale * slope).astype(np.float32)


@lru_cache
def _directions() -> Floats:
    """Cosine and sine of the first half of the angles, (4, 2); the others are opposite to them."""
    angles = np.arange(N_ANGLES // 2) * (2 * np.pi / N_ANGLES)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@lru_cache
def _bin_weights(patch_size: int) -> Floats:
    """Bilinear weight of each pixel of a patch in each bin along one side, (4, patch_size)."""
    width = patch_size / N_BINS
    centres = (np.arange(N_BINS) + 0.5) * width
    distances = np.abs(np.arange(patch_size) + 0.5 - centres[:, None])
    return np.maximum(1 - distances / width, 0).astype(np.float32)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _votes(image, gauss, slope, directions):  # type: ignore[no-untyped-def]
    """What each pixel votes for each direction, (height, 8 * width), directions side by side."""
    height, width = image.shape
    n, reach = len(gauss), len(gauss) // 2
    half = len(directions)
    smooth = np.empty(width + 2 * reach, dtype=np.float32)
    steep = np.empty(width + 2 * reach, dtype=np.float32)
    votes = np.zeros((height, 2 * half * width), dtype=np.float32)
    zero = np.float32(0)
    for y in range(height):
        smooth[:] = zero
        steep[:] = zero
        for i in range(n):
            row = image[min(max(y + i - reach, 0), height - 1)]
            for x in range(width):
                smooth[x + reach] += gauss[i] * row[x]
                steep[x + reach] += slope[i] * row[x]
        for x in range(reach):
            smooth[x], steep[x] = smooth[reach], steep[reach]
            smooth[-1 - x], steep[-1 - x] = smooth[-1 - reach], steep[-1 - reach]
        for x in range(width):
            along_x, along_y = zero, zero
            for i in range(n):
                along_x -= slope[i] * smooth[x + i]
                along_y -= gauss[i] * steep[x + i]
            square = along_x * along_x + along_y * along_y
            if square > zero:
                for a in range(half):
                    part = along_x * directions[a, 0] + along_y * directions[a, 1]
                    cosine2 = part * part / square
                    # magnitude * cos^9 = part * (cos^2)^4
                    vote = part * cosine2 * cosine2 * cosine2 * cosine2
                    votes[y, 2 * half * x + a] = max(vote, zero)
                    votes[y, 2 * half * x + half + a] = max(-vote, zero)
    return votes


@njit(cache=True, nogil=True, fastmath=FAST)
def _descriptors(votes, rows, columns, weights):  # type: ignore[no-untyped-def]
    """Weighted sums of the votes in the bins of each patch, first over rows, then over columns."""
    n_bins, size = weights.shape
    descriptors = np.zeros((len(rows) * len(columns), N_VALUES), dtype=np.float32)
    summed = np.empty(votes.shape[1], dtype=np.float32)
    for r in range(len(rows)):
        for upper in range(n_bins):
            summed[:] = np.float32(0)
            for i in range(size):
                weight = weights[upper, i]
                if weight > 0:
                    row = votes[rows[r] + i]
                    for x in range(len(summed)):
                        summed[x] += weight * row[x]
            for c in range(len(columns)):
                target = descriptors[r * len(columns) + c]
                _sum_columns(summed, columns[c], weights, target[upper * n_bins * N_ANGLES :])
    return descriptors


@njit(nogil=True, fastmath=FAST)
def _sum_columns(summed, first, weights, target):  # type: ignore[no-untyped-def]
    """The bins side by side of one patch, from votes that are summed over the rows."""
    n_bins, size = weights.shape
    for left in range(n_bins):
        for j in range(size):
            weight = weights[left, j]
            if weight > 0:
                start = (first + j) * N_ANGLES
                for a in range(N_ANGLES):
                    target[left * N_ANGLES + a] += weight * summed[start + a]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _normalise(descriptors, threshold):  # type: ignore[no-untyped-def]
    """In place: see `threshold` of `dense_sift`."""
    zero, largest = np.float32(0), np.float32(LARGEST_VALUE)
    for i in range(len(descriptors)):
        values = descriptors[i]
        square = zero
        for j in range(len(values)):
            square += values[j] * values[j]
        length = np.sqrt(square)
        scale = np.float32(1) / max(length, threshold)
        square = zero
        for j in range(len(values)):
            values[j] = min(values[j] * scale, largest)
            square += values[j] * values[j]
        if length >= threshold:
            scale = np.float32(1) / np.sqrt(square)
            for j in range(len(values)):
                values[j] *= scale
