"""A folder of images with one folder for each class, as people keep them."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from sklearn.utils import Bunch

from midfea.pictures.formats import has_image_ending
from midfea.pictures.images import too_small
from midfea.pictures.picture import Picture, make_picture
from midfea.pictures.reading import ImageError, open_image
from midfea.pictures.thumbnails import thumbnail
from midfea.progress import track

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
    paths, thumbnails (WebP files, empty unless asked for), and skipped: the files that could not be
    used, each with its reason. Files without an image's ending and hidden files are passed over.

    Raises
    ------
    ValueError if there is no image to be had, saying what was looked for.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"{root}: no such folder")
    classes = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    listed = [(path, c.name) for c in classes for path in find_images([c])]
    if not listed:
        raise ValueError(
            f"{root}: no images found. Expected one folder for each class with images in it, such as "
            f"{root.name or root}/cats/1.jpg"
        )
    photos, skipped = read_photos([path for path, _ in listed], max_side, min_side, thumbnails, rounded)
    labels = dict(listed)
    return Bunch(
        images=[photo.picture for photo in photos],
        target=np.array([labels[photo.path] for photo in photos], dtype=str),
        target_names=[c.name for c in classes],
        paths=[photo.path for photo in photos],
        thumbnails=[photo.thumbnail for photo in photos],
        skipped=skipped,
    )


def find_images(places: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Image files among the files named and, at any depth, in the folders named; sorted by folder.

    A name with `*`, `?` or `[` that is no file is a pattern, `**` any number of folders.
    """
    found: list[Path] = []
    for place in map(Path, places):
        is_pattern = glob.has_magic(str(place)) and not place.exists()
        matches = sorted(glob.glob(str(place), recursive=True)) if is_pattern else [place]
        for match in map(Path, matches):
            if match.is_dir():
                found += _images_inside(match)
            elif has_image_ending(match.name) or not is_pattern:
                found.append(match)
    return list(dict.fromkeys(found))


def _images_inside(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if has_image_ending(path.name)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


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
