"""From an image to local descriptors (Section 2.2): soft convolution, 3D max pooling, assembling."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Padding = Literal["valid", "same"]

# Below this share of the image's largest absolute value a filter response is rounding noise of
# float32 arithmetic, not texture: one grey level of 255 in one pixel answers some 50 times stronger.
FLAT = 1e-5
# Two maps that differ by less than this, after normalisation, count as equal to their mean.
EQUAL = 1e-6


def soft_convolution(
    image: NDArray[Any],
    filters: Floats,
    padding: Padding = "valid",
    *,
    rectify: bool = True,
    floor: float = 0.0,
) -> Floats:
    """Sparse, light-invariant feature maps of one grey image ("sConv", Section 2.2, footnote 1).

    Convolve, normalise along the third mode, subtract the mean map and clip at zero, normalise again.

    Parameters
    ----------
    image : array (height, width)
    filters : array (n_filters, k, k)
    padding : "valid" keeps the positions where the whole filter fits; "same" mirrors the border.
    rectify : take absolute responses before normalising. The paper's text does not say so, the
        authors' published code does: a dark line and a bright line then look alike. `False` gives
        the text to the letter.
    floor : positions whose responses are shorter than `floor` times the image's root mean square
        count as flat. The paper has none (0): where nothing is to be seen, the normalisation then
        raises the sensor's noise to full strength.

    Returns
    -------
    maps : float32 array (height, width, n_filters), non-negative; each position has unit length or
        is zero (where the image is flat, or all responses are equal).

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import soft_convolution
    >>> upright, level = [[-1, 1], [-1, 1]], [[-1, -1], [1, 1]]
    >>> image = np.array([[0, 0, 9], [0, 0, 9], [0, 0, 9]])
    >>> soft_convolution(image, np.array([upright, level]))[0].tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    responses = convolve(image, filters, padding)
    if rectify:
        responses = np.abs(responses)
    normalized = normalize_maps(responses, flat_below(image, responses, floor))
    return normalize_maps(threshold_maps(normalized), EQUAL)


def flat_below(image: NDArray[Any], responses: Floats, floor: float) -> float:
    """The length of responses that still counts as flat.

    In float64 the squares of 8-bit images' responses are exact (see `filters.GRID`), so that all
    engines draw the line at the same place.
    """
    mean_square = float(np.square(responses, dtype=np.float64).sum(axis=-1).mean())
    return max(FLAT * float(np.abs(image).max(initial=0)), floor * mean_square**0.5)


def convolve(image: NDArray[Any], filters: Floats, padding: Padding = "valid") -> Floats:
    """Responses of every filter at every position, (height, width, n_filters).

    The filters are cluster centres of patches, so a response is the inner product of patch and
    filter (correlation): a patch answers most to the filter it resembles.
    """
    image = np.asarray(image)
    filters = np.asarray(filters, dtype=np.float32)
    if image.ndim != 2:
        raise ValueError(f"one grey image (height, width) is needed, got shape {image.shape}")
    if filters.ndim != 3:
        raise ValueError(f"filters must have shape (n_filters, k, k), got {filters.shape}")
    image = image.astype(np.float32)
    size = filters.shape[1:]
    if padding == "same":
        margins = [((k - 1) // 2, k // 2) for k in size]
        image = np.pad(image, margins, mode="symmetric")
    elif padding != "valid":
        raise ValueError(f'padding is "valid" or "same", got {padding!r}')
    if image.shape[0] < size[0] or image.shape[1] < size[1]:
        raise ValueError(
            f"an image of {image.shape[0]}x{image.shape[1]} pixels is smaller than the filters "
            f'({size[0]}x{size[1]}): use larger images, smaller filters or padding="same"'
        )
    return np.tensordot(sliding_window_view(image, size), filters, axes=((2, 3), (1, 2)))


def normalize_maps(maps: Floats, min_length: float = 0.0) -> Floats:
    """Unit length along the third mode; zero where the length is not above `min_length`."""
    length = np.sqrt(np.square(maps, dtype=np.float64).sum(axis=-1, keepdims=True))
    unit = np.divide(maps, length, out=np.zeros(maps.shape), where=length > min_length)
    return unit.astype(maps.dtype)


def threshold_maps(maps: Floats) -> Floats:
    """What stands above the mean map: at each position the weaker half of the maps becomes zero."""
    return np.maximum(maps - maps.mean(axis=-1, keepdims=True), 0)


def max_pool_3d(maps: Floats, pairs: bool = True) -> Floats:
    """Maximum in 2x2x2 cuboids over every pair of maps ("3D Max-Pooling", Section 2.2).

    Parameters
    ----------
    maps : array (height, width, n_maps)
    pairs : pair the maps, in the order of `itertools.combinations`: 9 maps give 36.
        `False` pools each map alone (2x2).

    Returns
    -------
    pooled : array (ceil(height / 2), ceil(width / 2), n_maps * (n_maps - 1) / 2 or n_maps); the
        last row and column of an odd size are pooled alone, so that no position is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import max_pool_3d
    >>> max_pool_3d(np.ones((144, 143, 9))).shape
    (72, 72, 36)
    """
    height, width, n_maps = maps.shape
    rows, columns = np.arange(0, height, 2), np.arange(0, width, 2)
    pooled = np.maximum.reduceat(np.maximum.reduceat(maps, rows, axis=0), columns, axis=1)
    if not pairs:
        return pooled
    if n_maps < 2:
        raise ValueError("pairs need at least two maps: use two filters or more, or pairs=False")
    first, second = np.array(list(itertools.combinations(range(n_maps), 2))).T
    return np.maximum(pooled[:, :, first], pooled[:, :, second])


def assemble_descriptors(maps: Floats, window: int = 2) -> Floats:
    """Local descriptors: the maps in overlapping windows, unit length ("Local Descriptor Assembling").

    Parameters
    ----------
    maps : array (height, width, n_maps)
    window : side of the window; 2 as in the paper: 36 maps give 144.

    Returns
    -------
    descriptors : array (height - window + 1, width - window + 1, window * window * n_maps),
        components ordered by window row, window column, map; flat places stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.stages import assemble_descriptors
    >>> assemble_descriptors(np.ones((72, 72, 36))).shape
    (71, 71, 144)
    """
    height, width = maps.shape[:2]
    if height < window or width < window:
        raise ValueError(
            f"maps of {height}x{width} hold no {window}x{window} window: "
            "use larger images or a smaller window"
        )
    windows = sliding_window_view(maps, (window, window), axis=(0, 1))
    windows = windows.transpose(0, 1, 3, 4, 2)
    return unit_length(windows.reshape(height - window + 1, width - window + 1, -1))


def unit_length(vectors: Floats) -> Floats:
    """The vectors along the last axis at Euclidean length 1; zero vectors stay zero."""
    return normalize_maps(vectors)
