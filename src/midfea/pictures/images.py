"""Images as users hand them over, arrays or files of any size and kind, and as a model sees them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.picture import Picture, make_picture
from midfea.pictures.reading import ImageError, open_image
from midfea.pictures.resize import Grey

FORMS = (
    "Give a list of arrays, (height, width) or (height, width, 3), a stack of them "
    "(n, height, width[, 3]), or a list of file names"
)
MAX_KEPT_BYTES = 2**30  # of pictures that are kept so that no file is decoded twice


class Images:
    """A checked sequence of images: arrays, file names, or pictures. Files are read when asked for."""

    def __init__(self, images: Any) -> None:
        self._items: Sequence[Any] = images._items if isinstance(images, Images) else _checked(images)

    def __len__(self) -> int:
        return len(self._items)

    def name(self, index: int) -> str:
        """How to speak of image `index`: its file name, or its number."""
        item = self._items[index]
        return str(item) if _is_path(item) else f"image {index}"

    def part(self, indices: Sequence[int] | NDArray[np.intp] | range) -> Images:
        """Some of the images."""
        part = object.__new__(Images)
        part._items = [self._items[i] for i in indices]
        return part

    def picture(self, index: int, max_side: int | None, min_side: int, rounded: bool = False) -> Picture:
        """Image `index` as a model sees it; ImageError if it is too small, or cannot be read."""
        item, name = self._items[index], self.name(index)
        try:
            if isinstance(item, Picture):
                return _large_enough(item.within(max_side, rounded), item.shape, min_side)
            with open_image(item) if _is_path(item) else nullcontext(np.asarray(item)) as pixels:
                return picture_of(pixels, max_side, min_side, rounded)
        except ImageError as error:
            message = str(error)
            raise ImageError(message if message.startswith(name) else f"{name} {message}") from None


def picture_of(
    pixels: NDArray[Any], max_side: int | None, min_side: int, rounded: bool, coloured: bool = True
) -> Picture:
    """Pixels as a model sees them; ImageError if there are too few, or they cannot be used."""
    return _large_enough(make_picture(pixels, max_side, rounded, coloured), pixels.shape[:2], min_side)


def _large_enough(picture: Picture, shape: tuple[int, ...], min_side: int) -> Picture:
    if min(picture.shape) < min_side:
        raise ImageError(too_small(shape, picture.shape, min_side))
    return picture


def too_small(shape: tuple[int, ...], seen: tuple[int, ...], min_side: int) -> str:
    """Why an image of that shape, seen at another, cannot be used."""
    reduced = "" if shape == seen else f", {seen[0]}x{seen[1]} as the model sees it"
    return (
        f"has {shape[0]}x{shape[1]} pixels{reduced}, at least {min_side}x{min_side} are needed: "
        "leave it out, or choose smaller filters, windows or patches"
    )


class Pictures(Sequence[Picture]):
    """Images as one model sees them. As many as fit into memory are kept: each file is decoded once."""

    def __init__(
        self,
        images: Images,
        max_side: int | None,
        min_side: int = 1,
        rounded: bool = False,
        max_kept_bytes: int = MAX_KEPT_BYTES,
    ) -> None:
        self._images, self._seen = images, (max_side, min_side, rounded)
        self._kept: dict[int, Picture] = {}
        self._bytes_left = max_kept_bytes

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._kept:
            picture = self._images.picture(index, *self._seen)
            if picture.n_bytes > self._bytes_left:
                return picture
            self._bytes_left -= picture.n_bytes
            self._kept[index] = picture
        return self._kept[index]

    def grey(self, index: int) -> Grey:
        """The grey pixels of picture `index`."""
        grey: Grey = self[index].grey
        return grey


def _is_path(item: Any) -> bool:
    return isinstance(item, str | os.PathLike)


def _checked(images: Any) -> Sequence[Any]:
    if _is_path(images):
        raise ImageError(f"got one file name, {str(images)!r}: put it into a list. {FORMS}")
    if isinstance(images, Pictures):
        return images
    if hasattr(images, "__array__") and not isinstance(images, list | tuple):
        images = _stack(np.asarray(images))
    elif not isinstance(images, Sequence):
        raise ImageError(f"got {type(images).__name__}. {FORMS}")
    if len(images) == 0:
        raise ImageError("got no images: Found array with 0 sample(s), a minimum of 1 is required")
    for index, item in enumerate(images):
        if _is_path(item):
            if not os.path.isfile(item):
                raise ImageError(f"{item}: no such file")
        elif not isinstance(item, Picture):
            _check_array(index, item)
    return images


def _stack(images: NDArray[Any]) -> Sequence[Any]:
    """An array as images, one for each row."""
    if images.dtype == object and images.ndim:
        return list(images)
    if images.dtype.kind in "UT":  # text, of fixed width or not
        if images.ndim == 1:
            return list(images)
        what = (
            f"one file name, {str(images)!r}" if images.ndim == 0 else f"names in shape {images.shape}"
        )
        raise ImageError(f"got {what}: put file names into a list. {FORMS}")
    if images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (3, 4)):
        raise ImageError(
            f"got one array of shape {images.shape}, which is not a stack of images "
            f"(for a single image write [image]). {FORMS}"
        )
    if images.ndim > 4:
        raise ImageError(f"got an array of {images.ndim} dimensions. {FORMS}")
    return list(images)


def _check_array(index: int, item: Any) -> None:
    try:
        array = np.asarray(item)
    except ValueError:  # rows of different lengths
        raise ImageError(f"image {index} is not an array: its rows differ. {FORMS}") from None
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ImageError(f"image {index} has shape {array.shape}. {FORMS}")
    if array.dtype.kind not in "buif":
        raise ImageError(f"image {index} holds {array.dtype}, not numbers. {FORMS}")
    if array.size == 0:
        raise ImageError(f"image {index} is empty (shape {array.shape})")
