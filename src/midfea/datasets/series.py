"""Series: images taken shortly one after the other, which look alike.

Names alone prove nothing: `cat_001.jpg` may be a numbered photograph like any other. So series that
names or times suggest count only where the nearest image is mostly one of the same series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.likeness import ROUGH
from midfea.pictures.reading import ImageError, read_time_taken

MAX_GAP_SECONDS = 30.0  # between two photos of a series
MIN_KNOWN = 0.9  # share of the images whose time must be known
MIN_SERIES = 3  # in a folder; with fewer there is little to compare
MIN_IMAGES = 20  # to compare
MIN_AGREEMENT = 0.5  # 0: the nearest image is of the same series as often as by chance; 1: always
MAX_DISTANCE = 10  # places in the series: so far away the nearest image may be
MAX_COMPARED = 300  # images of a folder

_STAMP = re.compile(r"(20\d\d)\D?(\d\d)\D?(\d\d)\D?(\d\d)\D?(\d\d)\D?(\d\d)")

Indices = NDArray[np.intp]


class Series(NamedTuple):
    """Images in series, and why they are thought to be.

    Attributes
    ----------
    groups : the series of each image; an image that is in none has a number of its own
    clue : "names" or "times"
    first, last : the first and the last image of one of the series
    """

    groups: Indices
    clue: str
    first: Path
    last: Path

    def __str__(self) -> str:
        sizes = np.bincount(self.groups)
        sizes = sizes[sizes > 1]
        which = f"{self.first.parent.name}/{self.first.name} to {self.last.name}"
        return (
            f"{int(sizes.sum())} images look like series of photos, by {self.clue} and likeness "
            f"(such as {which}): {len(sizes)} series of about {round(float(sizes.mean()))} images"
        )


def suggest_groups(paths: Sequence[Path], prints: NDArray[np.float32]) -> Series | None:
    """The series that names or times show and looks confirm; None if there are none.

    Parameters
    ----------
    paths : the images' files; series lie within one folder
    prints : their fingerprints (`midfea.pictures.likeness.fingerprints`)
    """
    for clue, key in (
        ("times", _time_in_name),
        ("names", None),
        ("times", _time_taken),
        ("times", _mtime),
    ):
        ordered = _by_name(paths) if key is None else _by_time(paths, key)
        if ordered is not None and _agreement(ordered, prints) >= MIN_AGREEMENT:
            return _series(paths, ordered, clue)
    return None


class _Folder(NamedTuple):
    """Images of a folder in the order in which they were taken, and the series of each."""

    images: Indices
    series: Indices


def _by_name(paths: Sequence[Path]) -> list[_Folder]:
    """Series are names that differ in the number at their end only."""
    folders = []
    for images in _folders(paths):
        stems = {i: re.fullmatch(r"(.*?)(\d+)", paths[i].stem, re.DOTALL) for i in images}
        keys = {i: (m[1], int(m[2])) if m else (paths[i].name, -1) for i, m in stems.items()}
        images.sort(key=lambda i: keys[i])
        series = np.unique([keys[i][0] for i in images], return_inverse=True)[1]
        folders.append(_Folder(np.array(images), series))
    return folders


def _by_time(paths: Sequence[Path], clock: Callable[[Path], float | None]) -> list[_Folder] | None:
    """A series ends where a pause begins; None if the times are not known."""
    times = [clock(path) for path in paths[:MIN_IMAGES]]
    if times.count(None) > (1 - MIN_KNOWN) * len(times):
        return None  # without opening all files
    times += [clock(path) for path in paths[MIN_IMAGES:]]
    if times.count(None) > (1 - MIN_KNOWN) * len(times):
        return None
    folders = []
    for images in _folders(paths):
        known = sorted((time, i) for i in images if (time := times[i]) is not None)
        pauses = np.diff([time for time, _ in known]) > MAX_GAP_SECONDS
        series = np.concatenate([[0], np.cumsum(pauses)])[: len(known)]
        folders.append(_Folder(np.array([i for _, i in known], dtype=np.intp), series))
    return folders


def _folders(paths: Sequence[Path]) -> Iterator[list[int]]:
    by_folder: dict[Path, list[int]] = {}
    for i, path in enumerate(paths):
        by_folder.setdefault(path.parent, []).append(i)
    yield from by_folder.values()


def _agreement(folders: Sequence[_Folder], prints: NDArray[np.float32]) -> float:
    """How much more often than by chance an image's nearest one is near to it in its series."""
    hits: list[NDArray[np.bool_]] = []
    chances: list[NDArray[np.float64]] = []
    for images, series in folders:
        if len(np.unique(series)) < MIN_SERIES:
            continue
        rough = prints[images][:, ROUGH].astype(np.float64)
        places = np.arange(len(images))
        compared = places[:: -(-len(images) // MAX_COMPARED)]
        apart = np.abs(compared[:, None] - places)
        mates = (series[compared][:, None] == series) & (apart > 0) & (apart <= MAX_DISTANCE)
        squares = (rough**2).sum(axis=1)
        distances = squares - 2 * rough[compared] @ rough.T  # of one image to all, but for a constant
        distances[apart == 0] = np.inf
        hit = mates[np.arange(len(compared)), distances.argmin(axis=1)]
        asked = mates.any(axis=1)
        hits.append(hit[asked])
        chances.append(mates[asked].sum(axis=1) / (len(images) - 1))
    if sum(map(len, hits)) < MIN_IMAGES:
        return 0.0
    hit_share, chance = float(np.concatenate(hits).mean()), float(np.concatenate(chances).mean())
    return (hit_share - chance) / (1 - chance)


def _series(paths: Sequence[Path], folders: Sequence[_Folder], clue: str) -> Series:
    groups = np.full(len(paths), -1, dtype=np.intp)
    n_series, longest = 0, np.zeros(0, dtype=np.intp)
    for images, series in folders:
        groups[images] = series + n_series
        n_series += int(series.max(initial=-1)) + 1
        for number in np.unique(series):
            members = images[series == number]
            longest = max(longest, members, key=len)
    alone = groups < 0
    groups[alone] = n_series + np.arange(int(alone.sum()))
    return Series(groups, clue, paths[longest[0]], paths[longest[-1]])


def _time_in_name(path: Path) -> float | None:
    return _seconds(path.stem)


def _time_taken(path: Path) -> float | None:
    try:
        return _seconds(read_time_taken(path))
    except ImageError:
        return None


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _seconds(text: str) -> float | None:
    """The first time of day with its date in a text."""
    if (stamp := _STAMP.search(text)) is None:
        return None
    try:
        return datetime(*map(int, stamp.groups())).timestamp()  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        return None
