"""A folder of images with one folder for each class, as people keep them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from sklearn.utils import Bunch

from midfea.images import ImageError, fit_within, read_image, to_grey
from midfea.progress import track


class Skipped(NamedTuple):
    """A file that was left out, and why."""

    path: Path
    reason: str


def load_folder(
    folder: str | os.PathLike[str], *, max_side: int | None = 150, min_side: int = 1
) -> Bunch:
    """Grey images of a folder that holds one folder of images for each class.

    Parameters
    ----------
    folder : its sub-folders' names are the labels; images may lie deeper inside them
    max_side : larger images are reduced while reading, so that memory stays bounded
    min_side : smaller images are left out

    Returns
    -------
    Bunch with images (list of arrays), target (labels), target_names, paths, and skipped: the
    files that could not be used, each with its reason. Files without an image's ending and hidden
    files are passed over.

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
    images, paths, skipped = read_images([path for path, _ in listed], max_side, min_side)
    labels = dict(listed)
    return Bunch(
        images=images,
        target=np.array([labels[path] for path in paths], dtype=str),
        target_names=[c.name for c in classes],
        paths=paths,
        skipped=skipped,
    )


def find_images(places: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Image files among the files named and, at any depth, in the folders named; sorted by folder."""
    Image.init()
    endings = {ending for ending, kind in Image.EXTENSION.items() if kind in Image.OPEN} - {".pdf"}
    found = []
    for place in map(Path, places):
        if place.is_dir():
            found += sorted(
                path
                for path in place.rglob("*")
                if path.suffix.lower() in endings
                and path.is_file()
                and not any(part.startswith(".") for part in path.relative_to(place).parts)
            )
        else:
            found.append(place)
    return found


def read_images(
    paths: list[Path], max_side: int | None, min_side: int = 1
) -> tuple[list[Any], list[Path], list[Skipped]]:
    """Grey images, the files they come from, and the files that were left out."""

    def read(path: Path) -> Any:
        try:
            grey = fit_within(to_grey(read_image(path)), max_side)
        except ImageError as error:
            return str(error).removeprefix(f"{path}: ")
        if min(grey.shape) < min_side:
            return f"only {grey.shape[0]}x{grey.shape[1]} pixels, at least {min_side}x{min_side} needed"
        return grey

    images, kept, skipped = [], [], []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        results = track(pool.map(read, paths), "reading files", len(paths))
        for path, result in zip(paths, results, strict=True):
            if isinstance(result, str):
                skipped.append(Skipped(path, result))
            else:
                images.append(result)
                kept.append(path)
    return images, kept, skipped
