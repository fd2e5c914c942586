"""Damaged model files are refused; those changed and sealed anew are refused, or they answer."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import midfea
from harness import one_line
from midfea import checksum
from midfea.model_file import ModelFileError
from models import ModelParts, check_answer, model_files, parts_of
from mutate import changed_value, flipped, mutated
from scratch import note

ACCIDENT_SHARE = 0.3  # of cases: damage that nobody seals anew
EXTREMES = (0.0, -0.0, 1e-42, 1e-30, 0.5, 1.0, -1.0, 1.001, 2.0, 1e6, 1e12, -1e12, 1e13, np.nan, np.inf)
DTYPES = ("f4", "f8", "f2", "i4", "i8", "u1", "?")


def case(random: Random) -> None:
    """A file with damage, or with a description and arrays that somebody changed."""
    if random.random() < ACCIDENT_SHARE:
        _accident(random)
        return
    content = random.choice(model_files())
    if random.random() < 0.1:
        replay(mutated(random, content, model_files()))
        return
    description, arrays = parts_of(content)
    if random.random() < 0.6:
        description = _changed_description(random, description)
    else:
        for _ in range(random.choice((1, 1, 2, 5))):
            _change_arrays(random, arrays)
    try:
        sealed = ModelParts(description, arrays).sealed()
    except (TypeError, ValueError):  # no file can hold it
        return
    replay(sealed)


def replay(content: bytes) -> None:
    """Refused, or a model that answers with numbers."""
    path = note(content)
    try:
        model = midfea.load(path)
    except ModelFileError as error:
        one_line(error)
        return
    check_answer(model)


def warm_up() -> None:
    """Fit the models, and compile what they use."""
    for content in model_files():
        replay(content)


@cache
def _sealed_files() -> list[bytes]:
    return [content for content in model_files() if checksum.is_sound(content)]


def _accident(random: Random) -> None:
    """One flipped bit, or more: all damage is noticed."""
    whole = random.choice(_sealed_files())
    content = flipped(random, whole)
    if random.random() < 0.3:
        content = mutated(random, content)
    if content == whole:
        return
    path = note(content)
    try:
        midfea.load(path)
    except ModelFileError as error:
        one_line(error)
        return
    raise AssertionError("damage that was not noticed")


def _changed_description(random: Random, description: dict[str, Any]) -> Any:
    """Every second time within the settings and parameters, where most of the meaning is."""
    part = random.choice(("settings", "params"))
    if random.random() < 0.5 or not isinstance(description.get(part), dict):
        return changed_value(random, description)
    changed = changed_value(random, description[part])
    both = {"settings": changed, "params": changed} if random.random() < 0.3 else {part: changed}
    return description | both


def _change_arrays(random: Random, arrays: dict[str, NDArray[Any]]) -> None:
    if not arrays:
        return
    name = random.choice(sorted(arrays))
    array, what = arrays[name], random.random()
    if what < 0.1:
        del arrays[name]
    elif what < 0.15:
        arrays[random.choice(("x", "network_weights", "ns_layer.W", "projection"))] = array
    elif what < 0.25:
        arrays[name] = arrays[random.choice(sorted(arrays))]
    elif what < 0.35:
        arrays[name] = array.astype(random.choice(DTYPES))
    elif what < 0.5:
        arrays[name] = _reshaped(random, array)
    else:
        arrays[name] = _with_values(random, array)


def _reshaped(random: Random, array: NDArray[Any]) -> NDArray[Any]:
    shapes = [array.ravel(), array[None], array[:0] if array.ndim else array, array.T]
    if array.ndim:
        shapes += [array[:-1], np.concatenate([array, array]), array[..., :1], array.reshape(-1, 1)]
    return np.ascontiguousarray(random.choice(shapes))


def _with_values(random: Random, array: NDArray[Any]) -> NDArray[Any]:
    draw = np.random.RandomState(random.randrange(2**32))
    share = random.choice((0.001, 0.1, 1.0))
    places = draw.rand(*array.shape) < share
    with np.errstate(all="ignore"):
        if array.dtype.kind in "ib":
            other = random.choice((0, 1, -1, 2, 8, 9, 64, 2**31 - 1, len(np.atleast_1d(array))))
            return np.where(places, other, array).astype(array.dtype)
        change = random.choice((array * 0, array * 1e6, array * 1e12, -array, array * 1e-40, None))
        other = np.float64(random.choice(EXTREMES)) if change is None else change
        return np.where(places, other, array).astype(array.dtype)
