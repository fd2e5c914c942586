"""Arrays of any type, shape and value: an ImageError in one line, or finite probabilities."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import one_line
from midfea import MidFeaClassifier
from midfea.pictures.images import Images
from midfea.pictures.reading import ImageError
from models import check_probabilities, small_classifier
from scratch import note

DTYPES = (
    *("u1", "u1", "i1", "u2", ">u2", "i4", "u4", "i8", "u8", "f2", "f4", "f4", ">f4", "f8", "f8"),
    *("g", "?", "c8", "O", "U3", "S2", "M8[D]", "m8[s]", "V3", [("red", "u1"), ("green", "f4")]),
)
SIDES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 200)
USUAL_SIDES = (16, 24, 31, 64)
EXTREMES = (
    *(0.0, 1.0, -1.0, 255.0, 256.0, 1e-320, 1e-45, 1e-38, 1e-7, 1e20, 1e30, 3.4e38, -3.4028235e38),
    *(1e300, -1e308, np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63)),
)


def case(random: Random) -> None:
    """Images as somebody might hand them over."""
    images = _handed_over(random)
    note(f"{type(images)} {getattr(images, 'dtype', '')} {getattr(images, 'shape', '')}\n{images!r}")
    max_side, min_side = random.choice((None, 1, 20, 150)), random.choice((1, 7, 30))
    rounded = random.random() < 0.2
    try:
        checked = Images(images)
        for i in range(len(checked)):
            picture = checked.picture(i, max_side, min_side, rounded)
            assert min(picture.shape) >= min_side
            for plane in (picture.grey, *picture.colours):
                assert plane.dtype in (np.uint8, np.float32) and np.isfinite(plane).all(), plane
    except ImageError as error:
        one_line(error)
    try:
        answers = _model().predict_proba(images)
    except ImageError as error:
        one_line(error)
        return
    check_probabilities(answers, len(images), len(_model().classes_))


def warm_up() -> None:
    """Compile for both types of pixels."""
    for dtype in ("u1", "f4"):
        _model().predict_proba([np.arange(1024, dtype="f4").reshape(32, 32).astype(dtype)])


@cache
def _model() -> MidFeaClassifier:
    return small_classifier()


def _handed_over(random: Random) -> Any:
    array, what = _array(random), random.random()
    if what < 0.5:
        return [array]
    if what < 0.6:
        return array
    if what < 0.7:
        return [array, _array(random)]
    if what < 0.75:
        return np.array([array, None], dtype=object)[:1]
    if what < 0.8:
        return array[:3, :20].tolist() if array.ndim > 1 else array.tolist()
    if what < 0.85:
        return np.ma.masked_array(array, mask=np.zeros(array.shape, dtype=bool))
    if what < 0.9:
        return (array.tolist(),)
    odd = ([], (), None, 3, "x", b"x", {}, [None], [3], [""], ["x\0y"], [b"x"], [[1, [2]]], [object()])
    more = ([[[1, 2], [3]]], iter([array]), {"a": array}, [{}], [array, "missing.png"], np.float32(3))
    return random.choice((*odd, *more))


def _array(random: Random) -> NDArray[Any]:
    draw = np.random.RandomState(random.randrange(2**32))
    usual = random.random() < 0.7
    n_dims = random.choice((2, 2, 3)) if usual else random.randrange(6)
    sides = USUAL_SIDES if usual else SIDES[:8] if n_dims > 3 else SIDES
    shape = [random.choice(sides) for _ in range(n_dims)]
    if n_dims > 2 and random.random() < 0.8:
        shape[-1] = random.choice((1, 3, 4))
    dtype = np.dtype(random.choice(DTYPES))
    numbers = draw.randint(0, 256, shape) * random.choice((1.0, 1.0, 1 / 255, 1e-30, 1e25, -1.0))
    numbers = np.asarray(numbers, dtype=np.float64)
    if random.random() < 0.6:
        places = draw.rand(*shape) < random.choice((0.001, 0.1, 1.0))
        numbers = np.where(places, random.choice(EXTREMES), numbers)
    with np.errstate(all="ignore"):
        return _laid_out(random, _cast(numbers, dtype))


def _cast(numbers: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return numbers.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return np.zeros(numbers.shape, dtype=dtype)


def _laid_out(random: Random, array: NDArray[Any]) -> NDArray[Any]:
    """In another order of memory, read-only, or one value for all."""
    if array.ndim < 2 or random.random() < 0.6:
        return array
    what = random.randrange(5)
    if what == 0:
        return np.asfortranarray(array)
    if what == 1:
        return array[::-1, ::-1]
    if what == 2:
        return array[::2]
    if what == 3 and array.size:
        return np.broadcast_to(array.reshape(-1)[:1].reshape((1,) * array.ndim), array.shape)
    array.flags.writeable = False
    return array
