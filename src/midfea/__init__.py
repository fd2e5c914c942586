"""midfea: learn to classify images from a small labelled set, on a CPU, in minutes.

See `MidFeaClassifier` (images to labels), `MidFeaRegressor` (images to numbers), `MidFea` (images to
features), `NeuronSelectivity` (any features to class-specific neurons), `load` (a saved model), and
`midfea.stages` (the steps one by one).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Imported when first used: `import midfea` and `midfea --help` stay quick.
_HOMES = {
    "MidFea": "midfea.estimators.transformer",
    "MidFeaClassifier": "midfea.estimators.classifier",
    "MidFeaRegressor": "midfea.estimators.regressor",
    "NeuronSelectivity": "midfea.estimators.neuron_selectivity",
    "load": "midfea.estimators.saved",
    "datasets": "",
    "stages": "",
}

__all__ = [
    "MidFea",
    "MidFeaClassifier",
    "MidFeaRegressor",
    "NeuronSelectivity",
    "datasets",
    "load",
    "stages",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'midfea' has no attribute {name!r}")
    home = _HOMES[name]
    if not home:
        return importlib.import_module(f"midfea.{name}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
