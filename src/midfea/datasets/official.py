"""What the loaders of published sets share: find the folder, see that it is whole, read the images."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from midfea.pictures.picture import to_grey
from midfea.pictures.reading import ImageError, read_image
from midfea.pictures.resize import Grey
from midfea.progress import track

ABSENT_SHARE = 0.01  # a set that lacks more than this was not copied whole
FIRST_NAMES = 3  # so many absent files are named in an error, the others are counted


class DatasetError(ValueError):
    """A set that cannot be used; the message names the folder or file and says what to do."""


def find_folder(
    folder: str | os.PathLike[str], places: Sequence[str], files: Sequence[str], what: str
) -> Path:
    """The folder of the set: the one given or the first of `places` inside it where all `files` match.

    Parameters
    ----------
    folder : what the user gave
    places : folders inside it where the set may lie
    files : glob patterns of files that show that the set is there
    what : the set's name and an example of its files, for the error
    """
    given = Path(folder)
    if not given.is_dir():
        raise DatasetError(f"{given}: no such folder; give the folder that holds {what}")
    for root in (given, *(given / place for place in places)):
        if root.is_dir() and all(next(root.glob(pattern), None) for pattern in files):
            return root
    raise DatasetError(
        f"{given}: {what} not found, neither there nor in its folders {', '.join(places)}; "
        f"give the folder that holds the set"
    )


def check_whole(
    root: Path, found: int, expected: int, missing: Sequence[str], complete: bool = True
) -> None:
    """Refuse a half-copied set: a result from a part of it could not be compared with anything.

    Where `complete` is False a part will do, but not nothing.
    """
    if found == 0:
        raise DatasetError(f"{root}: none of the set's {expected:,} images is there; copy the set again")
    absent = expected - found
    if complete and absent > ABSENT_SHARE * expected:
        first = ", ".join(missing[:FIRST_NAMES]) + (", ..." if len(missing) > FIRST_NAMES else "")
        raise DatasetError(
            f"{root}: half-copied, {absent:,} of {expected:,} files are absent ({first}); "
            f"copy the set again, or say complete=False to use what is there"
        )


def count_rest(missing: list[str], found: int, expected: int) -> list[str]:
    """`missing`, and the number of absent images where their names cannot all be known."""
    absent = expected - found
    return [*missing, f"in all {absent:,} of {expected:,} images"] if absent > len(missing) else missing


def read_grey(paths: Sequence[Path], change: Callable[[int, Grey], Grey]) -> list[Grey]:
    """Grey images after `change(index, image)`, which makes them small while the next are read."""

    def read(index: int) -> Grey:
        try:
            return change(index, to_grey(read_image(paths[index])))
        except ImageError as error:
            raise DatasetError(f"{error}; copy it again") from None

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(track(pool.map(read, range(len(paths))), "reading files", len(paths)))
