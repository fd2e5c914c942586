"""A folder of images with one folder for each class, as people keep them."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from sklearn.utils import Bunch

from midfea.datasets.diagnosis import check_layout
from midfea.pictures.formats import has_image_ending, has_other_picture_ending, why_not_read
from midfea.pictures.images import picture_of
from midfea.pictures.picture import Picture
from midfea.pictures.reading import ImageError, open_image
from midfea.pictures.thumbnails import thumbnail
from midfea.progress import Plan, track

BYTES_READ_PER_SECOND, SECONDS_PER_FILE = 6e7, 0.0003  # roughly, decoded and reduced on two cores

IN_NO_CLASS = "lies beside the class folders, in none of them"
File = TypeVar("File")
Content = TypeVar("Content")


class Skipped(NamedTuple):
    """A file that was left out, and why."""

    path: Path
    reason: str


class Photo(NamedTuple):
    """A file as it was read: what the estimators see, and a small image for people."""

    path: Path
    picture: Picture
    thumbnail: bytes


def load_folder(
    folder: str | os.PathLike[str],
    *,
    max_side: int | None = 150,
    min_side: int = 1,
    thumbnails: bool = False,
    rounded: bool = False,
) -> Bunch:
    """Pictures of a folder that holds one folder of images for each class.

    Parameters
    ----------
    folder : its sub-folders' names are the labels; images may lie deeper inside them
    max_side : larger images are reduced while reading, so that memory stays bounded
    min_side : smaller images are left out
    thumbnails : also keep a thumbnail of each image, in its colours
    rounded : see `midfea.pictures.resize`; for models of file format 1

    Returns
    -------
    Bunch with images (list of `Picture`, grey arrays with their colours), target (labels), target_names,
    paths, thumbnails (WebP files, empty unless asked for), skipped: the files that could not be
    used, each with its reason, and tree: all names in the folder. Files without a picture's ending and
    hidden files are passed over.

    Raises
    ------
    WrongFolder (a ValueError) if this is no folder of class folders: what was found, and what to do.
    """
    root = Path(folder)
    tree = check_layout(root)
    listed: list[tuple[Path, str]] = []
    left_out = [Skipped(root / name, IN_NO_CLASS) for name in tree.images]
    left_out += [_not_read(root / name) for name in tree.pictures]
    for folder_of_class in tree.folders:
        paths, skipped = search_images([folder_of_class.path])
        listed += [(path, folder_of_class.path.name) for path in paths]
        left_out += skipped
    photos, skipped = read_photos([path for path, _ in listed], max_side, min_side, thumbnails, rounded)
    labels = dict(listed)
    return Bunch(
        images=[photo.picture for photo in photos],
        target=np.array([labels[photo.path] for photo in photos], dtype=str),
        target_names=[folder_of_class.path.name for folder_of_class in tree.folders],
        paths=[photo.path for photo in photos],
        thumbnails=[photo.thumbnail for photo in photos],
        skipped=left_out + skipped,
        tree=tree,
    )


def find_images(places: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The images of `search_images`."""
    return search_images(places)[0]


def search_images(places: Iterable[str | os.PathLike[str]]) -> tuple[list[Path], list[Skipped]]:
    """Image files among the files named and, at any depth, in the folders named; sorted by folder.

    A name with `*`, `?` or `[` that is no file is a pattern, `**` any number of folders. Folders that
    cannot be listed, and links to folders, are left out and named in the second list.
    """
    found: list[Path] = []
    skipped: list[Skipped] = []
    for place in map(Path, places):
        if os.path.isdir(place):
            _search(place, found, skipped)
        elif glob.has_magic(str(place)) and not os.path.exists(place):
            matches = sorted(glob.glob(str(place), recursive=True))
            if not matches:
                skipped.append(Skipped(place, "no such file, and no file's name matches it"))
            for match in map(Path, matches):
                if os.path.isdir(match):
                    _search(match, found, skipped)
                elif has_image_ending(match.name):
                    found.append(match)
        else:
            found.append(place)
    return list(dict.fromkeys(found)), list(dict.fromkeys(skipped))


def walk_files(folder: str | os.PathLike[str]) -> Iterator[Path | Skipped]:
    """The files inside a folder at any depth, folder by folder, but for hidden ones.

    Folders that cannot be listed, and links to folders, are named as skipped.
    """
    failed: list[OSError] = []
    for root, folders, files in os.walk(folder, onerror=failed.append):
        while failed:
            yield _not_listed(failed.pop())
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if os.path.islink(os.path.join(root, name)):
                yield Skipped(Path(root, name), "a link to a folder: links are not followed")
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))
    yield from map(_not_listed, failed)


def _search(folder: Path, found: list[Path], skipped: list[Skipped]) -> None:
    """Add the images inside a folder, and what had to be left out."""
    inside: list[Path] = []
    for file in walk_files(folder):
        if isinstance(file, Skipped):
            skipped.append(file)
        elif has_image_ending(file.name):
            inside.append(file)
        elif has_other_picture_ending(file.name):
            skipped.append(_not_read(file))
    found += sorted(inside)


def _not_listed(error: OSError) -> Skipped:
    return Skipped(Path(error.filename), f"the folder cannot be read ({error.strerror})")


def _not_read(path: Path) -> Skipped:
    return Skipped(path, why_not_read(path.name))


def read_photos(
    paths: list[Path],
    max_side: int | None,
    min_side: int = 1,
    thumbnails: bool = False,
    rounded: bool = False,
) -> tuple[list[Photo], list[Skipped]]:
    """The files that can be used, and those that cannot."""

    def read(path: Path) -> Photo | Skipped:
        try:
            with open_image(path) as pixels:
                picture = picture_of(pixels, max_side, min_side, rounded)
                return Photo(path, picture, thumbnail(pixels) if thumbnails else b"")
        except ImageError as error:
            return Skipped(path, str(error).removeprefix(f"{path}: "))

    results = read_all(read, paths)
    photos = [result for result in results if isinstance(result, Photo)]
    return photos, [result for result in results if isinstance(result, Skipped)]


def read_all(read: Callable[[File], Content], files: Sequence[File]) -> list[Content]:
    """read(file) for each file, several at a time."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(track(pool.map(read, files), "reading files", len(files)))


def expected_reading(files: Sequence[Path]) -> Plan:
    """Roughly how long it takes to read these files, on two cores."""
    n_bytes = 0
    for file in files:
        with suppress(OSError):  # whoever reads it will say so
            n_bytes += file.stat().st_size
    return [("reading files", 0.1 + SECONDS_PER_FILE * len(files) + n_bytes / BYTES_READ_PER_SECOND)]
