"""Images as users hand them over: arrays or files of any size and kind, turned into grey pixels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

Grey = NDArray[np.uint8] | NDArray[np.float32]
NEUTRAL = 128  # of `opponents`: no colour

FORMS = (
    "Give a list of arrays, (height, width) or (height, width, 3), a stack of them "
    "(n, height, width[, 3]), or a list of file names"
)


class ImageError(ValueError):
    """An image that cannot be used; the message says which one and why."""


class Images(Sequence[NDArray[Any]]):
    """A checked sequence of images. Files are read when asked for, so that memory stays bounded."""

    def __init__(self, images: Any) -> None:
        self._items = _checked(images)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        item = self._items[index]
        return read_image(item) if _is_path(item) else np.asarray(item)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def grey(self, index: int, max_side: int | None = None) -> Grey:
        """Image `index` in grey, its longer side at most `max_side` pixels."""
        try:
            return fit_within(to_grey(self[index]), max_side)
        except ImageError as error:
            if _is_path(self._items[index]):  # the message names the file
                raise
            raise ImageError(f"{self.name(index)} {error}") from None

    def opponents(self, index: int, max_side: int | None = None) -> list[NDArray[np.uint8]]:
        """How red and how yellow image `index` is, as `opponents`; nothing if it has no colour."""
        item = self._items[index]
        if isinstance(item, Picture):
            return item.opponents
        return [fit_within(plane, max_side) for plane in opponents(self[index])]  # type: ignore[misc]

    def name(self, index: int) -> str:
        """How to speak of image `index`: its file name, or its number."""
        item = self._items[index]
        return str(item) if _is_path(item) else f"image {index}"


def _is_path(item: Any) -> bool:
    return isinstance(item, str | os.PathLike)


def _checked(images: Any) -> Sequence[Any]:
    if isinstance(images, Images):
        return images._items
    if _is_path(images):
        raise ImageError(f"got one file name, {str(images)!r}: put it into a list. {FORMS}")
    if hasattr(images, "__array__") and not isinstance(images, list | tuple):
        images = np.asarray(images)
        if images.dtype == object:
            images = list(images)
        elif images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (3, 4)):
            raise ImageError(
                f"got one array of shape {images.shape}, which is not a stack of images "
                f"(for a single image write [image]). {FORMS}"
            )
        elif images.ndim > 4:
            raise ImageError(f"got an array of {images.ndim} dimensions. {FORMS}")
    elif not isinstance(images, Sequence):
        raise ImageError(f"got {type(images).__name__}. {FORMS}")
    if len(images) == 0:
        raise ImageError("got no images: Found array with 0 sample(s), a minimum of 1 is required")
    for index, item in enumerate(images):
        if _is_path(item):
            if not Path(item).is_file():
                raise ImageError(f"{item}: no such file")
        else:
            _check_array(index, item)
    return images


def _check_array(index: int, item: Any) -> None:
    array = np.asarray(item)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ImageError(f"image {index} has shape {array.shape}. {FORMS}")
    if array.dtype.kind not in "buif":
        raise ImageError(f"image {index} holds {array.dtype}, not numbers. {FORMS}")
    if array.size == 0:
        raise ImageError(f"image {index} is empty (shape {array.shape})")


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Pixels of a file, (height, width) or (height, width, 3), uint8 (float32 if it holds more).

    Palettes are resolved, transparency is laid over white, the camera's orientation is applied.
    """
    try:
        with Image.open(path) as file:
            image: Image.Image = ImageOps.exif_transpose(file)
            if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits per pixel
                return np.asarray(image).astype(np.float32)
            if image.mode in ("1", "L"):
                return np.asarray(image.convert("L"))
            if image.has_transparency_data:
                image = _over_white(image.convert("RGBA"))
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError:
        raise ImageError(f"{path}: no such file") from None
    except Exception as error:  # Pillow raises many kinds on damaged files
        raise ImageError(f"{path}: not a readable image ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def to_grey(pixels: NDArray[Any]) -> Grey:
    """Luminance (height, width): uint8 stays uint8, anything else becomes float32."""
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.float32)
        if not np.isfinite(pixels).all():
            raise ImageError(
                "contains NaN or infinity: replace the missing pixels, or leave the image out"
            )
    if pixels.ndim == 2:
        return pixels
    if pixels.shape[2] == 1:
        return pixels[:, :, 0]
    if pixels.shape[2] == 4:  # over white, as files are read
        if pixels.dtype == np.uint8:
            return to_grey(np.asarray(_over_white(Image.fromarray(pixels, "RGBA"))))
        pixels = pixels[:, :, :3]
    if pixels.dtype == np.uint8:
        # The integer weights of ITU-R 601 as Pillow uses them: files and arrays give the same grey.
        weighted = pixels.astype(np.uint32) @ np.array([19595, 38470, 7471], dtype=np.uint32)
        return ((weighted + 0x8000) >> 16).astype(np.uint8)
    return pixels @ np.array([0.299, 0.587, 0.114], dtype=np.float32)


def opponents(pixels: NDArray[Any]) -> list[NDArray[np.uint8]]:
    """Red against green and yellow against blue, (height, width) each, `NEUTRAL` for neither.

    Nothing for grey pixels, and for floats, whose unit is not known.
    """
    if pixels.dtype != np.uint8 or pixels.ndim == 2 or pixels.shape[2] == 1:
        return []
    if pixels.shape[2] == 4:
        pixels = np.asarray(_over_white(Image.fromarray(pixels, "RGBA")))
    red, green, blue = pixels.astype(np.int16).transpose(2, 0, 1)
    if (red == green).all() and (green == blue).all():
        return []
    return [
        (NEUTRAL + (values + half) // whole).clip(0, 255).astype(np.uint8)
        for values, half, whole in ((red - green, 1, 2), (red + green - 2 * blue, 2, 4))
    ]


class Picture(np.ndarray[Any, Any]):
    """Grey pixels, reduced already, that remember their colours (`Images.opponents`)."""

    opponents: list[NDArray[np.uint8]] = []  # noqa: RUF012 - for views, which forget them


def picture(pixels: NDArray[Any], max_side: int | None) -> Picture:
    """An image as it may be kept for the estimators: no larger than they want it."""
    kept = fit_within(to_grey(pixels), max_side).view(Picture)
    kept.opponents = [fit_within(plane, max_side) for plane in opponents(pixels)]  # type: ignore[misc]
    return kept


def _over_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def fit_within(image: Grey, max_side: int | None) -> Grey:
    """The image itself, or a smaller copy whose longer side is `max_side`."""
    longest = max(image.shape)
    if max_side is None or longest <= max_side:
        return image
    return rescale(image, max_side / longest)


def rescale(image: Grey, factor: float) -> Grey:
    """A copy of another size, area-weighted so that nothing aliases; uint8 stays uint8."""
    return resize(image, scaled_shape(image.shape, factor))


def scaled_shape(shape: tuple[int, ...], factor: float) -> tuple[int, int]:
    """Height and width after `rescale`."""
    height, width = (max(1, round(side * factor)) for side in shape)
    return height, width


def resize(image: Grey, shape: tuple[int, int]) -> Grey:
    """A copy of `shape` (height, width)."""
    if image.shape == shape:
        return image
    resized = Image.fromarray(np.ascontiguousarray(image)).resize(
        (shape[1], shape[0]), Image.Resampling.BILINEAR
    )
    return np.asarray(resized)
