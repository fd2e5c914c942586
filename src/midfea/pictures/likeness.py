"""Near-duplicates: pictures that were encoded again, resized, or made a little brighter.

A fingerprint is a small picture of the edges and a rougher one of the brightness and colours. Saving a
file again hardly changes either; another photograph of the same thing has other edges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from midfea.pictures.picture import NO_COLOUR, Picture
from midfea.pictures.resize import Grey, resize
from midfea.progress import track

SIDE, EDGE_SIDE, ROUGH_SIDE = 32, 16, 4  # pixels: as it is looked at, of the edges, of the rough picture
EDGES = slice(0, EDGE_SIDE**2)  # of a fingerprint, of unit length; zeros for a flat picture
N_VALUES = EDGES.stop + 3 * ROUGH_SIDE**2
ROUGH = slice(EDGES.stop, N_VALUES)  # grey and two colours, 0 to 255

MIN_CONTRAST = 1.0  # grey levels, root mean square: a picture below is flat, and has no edges
MIN_LIKENESS = 0.985  # inner product of the edges of near-duplicates
MAX_PEAK = 0.04  # difference of the edges at one place: more is a thing that was not there before
MAX_ROUGH_DIFFERENCE = 16.0  # of 255
MAX_COPIES = 20  # larger groups are alike by nature, such as the pictures of a camera that stands still
ROWS_AT_ONCE = 512

_WAVES = dct(np.eye(SIDE), norm="ortho", axis=0)[:EDGE_SIDE]  # (wave, place)
_PLACES = dct(np.eye(EDGE_SIDE), norm="ortho", axis=0).T  # (place, wave) of the edges
_FREQUENCIES = np.hypot(*np.meshgrid(np.arange(EDGE_SIDE), np.arange(EDGE_SIDE)))


def fingerprint(picture: Picture) -> NDArray[np.float32]:
    """`N_VALUES` numbers, which are nearly equal for near-duplicates."""
    grey = 255 / picture.white * _resized(picture.grey, SIDE)
    waves = _WAVES @ grey @ _WAVES.T
    waves[0, 0] = 0
    values = np.zeros(N_VALUES, dtype=np.float32)
    if np.linalg.norm(waves) >= MIN_CONTRAST * SIDE:
        edges = (_PLACES @ (_FREQUENCIES * waves) @ _PLACES.T).ravel()
        values[EDGES] = edges / np.linalg.norm(edges)
    rough = [_resized(grey, ROUGH_SIDE)]
    rough += [_resized(plane, ROUGH_SIDE) for plane in picture.colours] or [
        np.full_like(rough[0], NO_COLOUR)
    ] * 2
    values[ROUGH] = np.ravel(rough)
    return values


def fingerprints(pictures: Sequence[Picture]) -> NDArray[np.float32]:
    """A row for each picture."""
    rows = [fingerprint(pictures[i]) for i in track(range(len(pictures)), "likeness", len(pictures))]
    return np.stack(rows)


def near_duplicates(prints: NDArray[np.float32]) -> NDArray[np.intp]:
    """A number for each fingerprint, the same for near-duplicates and for what they join.

    Every pair is compared, some rows at a time: memory grows with the number of pictures only.
    """
    edges, n = np.ascontiguousarray(prints[:, EDGES]), len(prints)
    groups = np.arange(n)
    for start in range(0, n, ROWS_AT_ONCE):
        likeness = edges[start : start + ROWS_AT_ONCE] @ edges[start:].T
        rows, columns = np.nonzero(np.triu(likeness > MIN_LIKENESS, 1))
        for row in np.unique(rows):
            i, others = start + row, start + columns[rows == row]
            others = others[groups[others] != groups[i]]
            others = others[_are_copies(prints[i], prints[others])]
            groups[np.isin(groups, groups[others])] = groups[i]
    sizes = np.bincount(groups, minlength=n)
    return np.where(sizes[groups] <= MAX_COPIES, groups, n + np.arange(n))


def _are_copies(one: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which pictures of alike edges are near-duplicates of one: not those with another thing in them."""
    difference = np.abs(others - one)
    spread = difference[:, EDGES].max(axis=1) <= MAX_PEAK
    alike: NDArray[np.bool_] = spread & (difference[:, ROUGH].max(axis=1) <= MAX_ROUGH_DIFFERENCE)
    return alike


def _resized(plane: Grey | NDArray[np.float64], side: int) -> NDArray[np.float64]:
    return resize(plane, (side, side)).astype(np.float64)  # type: ignore[arg-type]
