"""The arrays of `Belonging` in a model file, from format 4 on."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.learning.belonging import Belonging, FeatureShape, ScoreShape
from midfea.model_file.schema import ModelFileError, take

Arrays = dict[str, NDArray[Any]]

SHAPES = {"scores": ScoreShape, "features": FeatureShape}
OWN = ("medians", "scales", "reference")


def write_belonging(belonging: Belonging | None, arrays: Arrays) -> None:
    """Add what is known of belonging to the arrays of a file."""
    if belonging is None:
        return
    for part, kind in SHAPES.items():
        values = getattr(belonging, part)
        arrays |= {f"belonging.{part}.{f.name}": getattr(values, f.name) for f in fields(kind)}
    arrays |= {f"belonging.{name}": getattr(belonging, name) for name in OWN}
    if belonging.against is not None:
        arrays["belonging.against"] = belonging.against


def read_belonging(arrays: Arrays) -> Belonging | None:
    """What a file says of belonging; None for files without."""
    if "belonging.reference" not in arrays:
        return None
    scores, features = (
        {f.name: take(arrays, f"belonging.{part}.{f.name}") for f in fields(kind)}
        for part, kind in SHAPES.items()
    )
    own = {name: take(arrays, f"belonging.{name}") for name in OWN}
    against = take(arrays, "belonging.against") if "belonging.against" in arrays else None
    shapes = ScoreShape(**scores), FeatureShape(**features)
    return Belonging(*shapes, against, own["medians"], own["scales"], own["reference"])


def check_belonging(belonging: Belonging, k: int, p: int) -> None:
    """ModelFileError unless the parts fit k classes and p features."""
    against = belonging.against
    n_measures = 3 if against is None else 4
    due: dict[str, tuple[int, ...]] = {
        "scores.mean": (k,),
        "scores.within": (k, k),
        "scores.total": (k, k),
        "scores.centres": (k, k),
        "scores.total_mean": (k,),
        "features.mean": (p,),
        "features.directions": (p, belonging.features.directions.shape[-1]),
        "medians": (n_measures,),
        "scales": (n_measures,),
        "reference": (belonging.reference.size,),
    }
    if against is not None:
        due["against"] = (p + 1,)
    for name, shape in due.items():
        found = _named(belonging, name).shape
        if found != shape:
            raise ModelFileError(f"belonging.{name} has shape {found} where {shape} is due")
    if (np.diff(belonging.reference) < 0).any():
        raise ModelFileError("belonging.reference must not fall")


def _named(belonging: Belonging, name: str) -> NDArray[Any]:
    value: Any = belonging
    for part in name.split("."):
        value = getattr(value, part)
    return np.asarray(value)
