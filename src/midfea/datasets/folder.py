"""A folder of images with one folder for each class, as people keep them."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from sklearn.utils import Bunch

from midfea.datasets.diagnosis import check_layout
from midfea.pictures.formats import ending_of, has_image_ending, has_other_picture_ending
from midfea.pictures.images import too_small
from midfea.pictures.picture import Picture, make_picture
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


def _search(folder: Path, found: list[Path], skipped: list[Skipped]) -> None:
    """Add the images inside a folder, but for hidden ones, and what had to be left out."""

    def failed(error: OSError) -> None:
        skipped.append(Skipped(Path(error.filename), f"the folder cannot be read ({error.strerror})"))

    inside: list[Path] = []
    for root, folders, files in os.walk(folder, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if os.path.islink(os.path.join(root, name)):
                skipped.append(Skipped(Path(root, name), "a link to a folder: links are not followed"))
        shown = sorted(name for name in files if not name.startswith("."))
        inside += [Path(root, name) for name in shown if has_image_ending(name)]
        skipped += [_not_read(Path(root, name)) for name in shown if has_other_picture_ending(name)]
    found += sorted(inside)


def _not_read(path: Path) -> Skipped:
    reason = f"midfea does not read {ending_of(path.name)} files: save it as JPEG or PNG"
    return Skipped(path, reason)


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
                picture = make_picture(pixels, max_side, rounded)
                if min(picture.shape) < min_side:
                    return Skipped(path, too_small(pixels.shape[:2], picture.shape, min_side))
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
