"""What a model file may hold: the type, range and shape of every number, list and array.

A file is refused before anything is made of it, so that nothing in it can make a kernel read where it
must not, a loop run without end, or an answer be NaN. The ranges are far wider than what training gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.learning.class_weights import check_class_weight

MAX_FILE_BYTES = 8_000_000_000
MAX_HEADER_BYTES = 100_000_000
MAX_CLASSES = 1_000_000


class ModelFileError(ValueError):
    """A file that is not a model this version can read; the message says what to do."""


@dataclass(frozen=True)
class Number:
    """A number within a range; `whole`: without a fraction."""

    low: float
    high: float
    whole: bool = False

    def check(self, name: str, value: Any) -> Any:
        """The number, as an int or a float."""
        kinds = int if self.whole else int | float
        if not isinstance(value, kinds) or isinstance(value, bool) or not self.low <= value <= self.high:
            what = "a whole number" if self.whole else "a number"
            raise ModelFileError(
                f"{name} must be {what} from {self.low:g} to {self.high:g}, got {value!r}"
            )
        return value if self.whole else float(value)


@dataclass(frozen=True)
class ArrayRule:
    """Types that an array may have, and the largest size of its numbers."""

    dtypes: tuple[str, ...] = ("float32", "float64")
    largest: float = 1e12
    lowest: float | None = None  # if it is not minus the largest

    def check(self, name: str, array: NDArray[Any]) -> None:
        """ModelFileError unless the array keeps the rule."""
        if str(array.dtype) not in self.dtypes:
            raise ModelFileError(
                f"the array {name!r} holds {array.dtype}, not {' or '.join(self.dtypes)}"
            )
        if array.dtype.kind == "b" or not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise ModelFileError(f"the array {name!r} holds NaN or infinity")
        lowest = -self.largest if self.lowest is None else self.lowest
        if low < lowest or high > self.largest:
            raise ModelFileError(
                f"the array {name!r} holds {low:g} to {high:g}, beyond {lowest:g} to {self.largest:g}"
            )


NUMBERS = {
    "n_cells": Number(1, 100_000, whole=True),
    "C": Number(1e-12, 1e12),
    "logit_scale": Number(0, 1e9),
    "intercept": Number(-1e30, 1e30),
    "colour_bandwidth": Number(1e-6, 1e9),
    "n_folds": Number(0, 1_000_000, whole=True),
    "n_groups": Number(0, 1_000_000_000, whole=True),
    "side": Number(1, 1_000_000_000, whole=True),
}

_UNIT = ArrayRule(("float32",), largest=1.001)  # filters and words are at most of unit length
_INDICES = ArrayRule(("int32", "int64"), largest=2**40, lowest=0)
_SMALL_WHOLE = ArrayRule(("int64",), largest=64, lowest=0)
ARRAYS = {
    "filters": _UNIT,
    "codebook": _UNIT,
    "colour.words": ArrayRule(("float32",), largest=1e4),
    "projection.indices": _INDICES,
    "projection.indptr": _INDICES,
    "validation.indices": _INDICES,
    "validation.labels": _INDICES,
    "validation.folds": _INDICES,
    "network.step": ArrayRule(("int64",), largest=8, lowest=1),
    "network.view_shift": _SMALL_WHOLE,
    "network.moved": _SMALL_WHOLE,  # its name in format 1
    "network.mirror": ArrayRule(("bool",)),
    "network.rounded": ArrayRule(("bool",)),
}
FLOATS = ArrayRule()  # all other arrays


def take(arrays: dict[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """An array of the file that keeps its rule; it is taken out of `arrays`."""
    if key not in arrays:
        raise ModelFileError(
            f"the array {key!r} is missing: damaged, or saved by another version of midfea; train again"
        )
    array = arrays.pop(key)
    ARRAYS.get(key, FLOATS).check(key, array)
    return array


def number(description: Mapping[str, Any], key: str, rule: str | None = None) -> Any:
    """A number of the description that keeps its rule."""
    return NUMBERS[rule or key].check(key, description.get(key))


# The kind of the labels' type, and what they become when they are read.
CLASS_TYPES = {
    "U": str,
    "i": np.int64,
    "u": np.uint64,
    "f": np.float64,
    "b": bool,
    "O": object,
    "M": "M8",
}


def written_classes(classes: NDArray[Any]) -> list[Any]:
    """The labels as JSON knows them; ValueError if it does not know them."""
    values: list[Any] = (classes.astype(str) if classes.dtype.kind == "M" else classes).tolist()
    if classes.dtype.kind not in CLASS_TYPES or not _are_plain(values):
        raise ValueError(f"labels such as {values[0]!r} cannot be saved: use text or numbers")
    return values


def written_weights(class_weight: Any) -> Any:
    """The parameter `class_weight`; a dict as pairs, since JSON's keys are text."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    pairs = [
        [label.item() if isinstance(label, np.generic) else label, weight]
        for label, weight in class_weight.items()
    ]
    for label, _ in pairs:
        if not _are_plain([label]):
            raise ValueError(f"class_weight: {label!r} cannot be saved: use text or numbers as labels")
    return pairs


def read_weights(written: Any) -> Any:
    """The parameter `class_weight` as it was."""
    class_weight = dict(written) if isinstance(written, list) else written
    check_class_weight(class_weight)
    return class_weight


def read_classes(description: Mapping[str, Any]) -> NDArray[Any]:
    """The labels, in their own type; sorted, and none twice."""
    values, kind = description["classes"], description["classes_kind"]
    if not isinstance(values, list) or not 2 <= len(values) <= MAX_CLASSES:
        raise ModelFileError("classes must be a list of two labels or more")
    if kind not in CLASS_TYPES or not _are_plain(values):
        raise ModelFileError(f"classes must be text or numbers, got kind {kind!r}")
    dtype: Any = CLASS_TYPES[kind]
    classes: NDArray[Any] = np.asarray(values).astype(dtype)
    if classes.ndim != 1 or not all(classes[:-1] < classes[1:]):
        raise ModelFileError("classes must be sorted, and none may stand twice")
    return classes


def _are_plain(values: list[Any]) -> bool:
    return all(isinstance(value, str | int | float) for value in values)
