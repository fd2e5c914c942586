"""The `.midfea` model file: safetensors (arrays), whose metadata holds a JSON description.

Loading runs no code and trusts nothing: the class is one of a fixed list, every array must have the
shape that the settings imply, and what is unknown is refused with a clear message.
"""

from __future__ import annotations

import importlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.base import clone

from midfea.engines import Chain
from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.estimators.presets import check
from midfea.files import replacing
from midfea.learning.network.model import Network

VERSION = 1
CLASSES = {
    "MidFea": "midfea.estimators.transformer",
    "MidFeaClassifier": "midfea.estimators.classifier",
    "MidFeaRegressor": "midfea.estimators.regressor",
}
# Fitted attributes beside the chain's, by class: numbers in the description, arrays in the file.
NUMBERS = {
    "MidFea": (),
    "MidFeaClassifier": ("C_", "cv_accuracy_", "temperature_"),
    "MidFeaRegressor": ("intercept_",),
}
ARRAYS = {
    "MidFea": (),
    "MidFeaClassifier": ("coef_", "intercept_"),
    "MidFeaRegressor": ("coef_",),
}

# Parameters that older files do not have, and what they stand for there.
ADDED: dict[str, Any] = {"device": None, "precision": "exact", "finetune": False, "augment": None}

# Of the neuron-selectivity layer; the codes of the training samples are not kept.
LAYER_ARRAYS = ("W_", "b_", "D_", "selectivity_", "center_")


class ModelFileError(ValueError):
    """A file that is not a model this version can read; the message says what to do."""


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; the file appears whole or not at all."""
    name = type(model).__name__
    if name not in CLASSES:
        raise TypeError(f"{name} cannot be saved: only {', '.join(CLASSES)} can")
    description = {
        "format": "midfea",
        "version": VERSION,
        "class": name,
        "params": _plain(model.get_params(deep=False)),
        "settings": _plain(model.settings_),
        "n_cells": int(model.n_cells_),
        "numbers": {key: _plain(getattr(model, key)) for key in NUMBERS[name]},
    }
    arrays = {"filters": model.filters_, "codebook": model.codebook_}
    if sp.issparse(model.projection_):
        matrix = model.projection_
        description["projection_shape"] = list(matrix.shape)
        arrays |= {
            "projection.data": matrix.data,
            "projection.indices": matrix.indices,
            "projection.indptr": matrix.indptr,
        }
    elif model.projection_ is not None:
        arrays["projection"] = model.projection_
    if model.projection_mean_ is not None:
        arrays["projection_mean"] = model.projection_mean_
    arrays |= {key: getattr(model, key) for key in ARRAYS[name]}
    layer = getattr(model, "selectivity_", None)
    if layer is not None:
        description["selectivity"] = _plain(layer.get_params())
        arrays |= {f"selectivity.{key}": getattr(layer, key) for key in LAYER_ARRAYS}
    if getattr(model, "network_", None) is not None:
        arrays |= {f"network.{key}": value for key, value in model.network_.arrays().items()}
        arrays["network_weights"] = model.network_weights_
    if name == "MidFeaClassifier":
        description["classes"] = _plain(model.classes_.tolist())
        description["classes_kind"] = model.classes_.dtype.kind
    contiguous = {key: np.asarray(value, order="C") for key, value in arrays.items()}
    with replacing(path) as temporary:
        save_file(contiguous, temporary, {"midfea": json.dumps(description, allow_nan=False)})


def _plain(value: Any) -> Any:
    """The value as JSON knows it; what JSON does not know (a RandomState, NaN) becomes None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator saved in a `.midfea` file.

    Examples
    --------
    >>> import midfea
    >>> model = midfea.load("model.midfea")  # doctest: +SKIP
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such model file")
    description, arrays = _read(Path(path))
    try:
        return _restore(description, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path}: the model's description is damaged ({error!r})") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with safe_open(path, framework="numpy") as file:
            description = json.loads((file.metadata() or {}).get("midfea", "null"))
            if not isinstance(description, dict) or description.get("format") != "midfea":
                raise ModelFileError(f"{path}: a safetensors file, but not a midfea model")
            if description.get("version") != VERSION:
                raise ModelFileError(
                    f"{path}: written in format {description.get('version')!r}, this midfea reads "
                    f"format {VERSION}: install a newer midfea (pip install -U midfea)"
                )
            return description, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise ModelFileError(
            f"{path}: not a midfea model, or damaged, or cut short ({error}): save it again"
        ) from None


def _restore(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    name = description["class"]
    if name not in CLASSES:
        raise ModelFileError(f"holds a {name!r}, which this midfea does not know")
    cls = getattr(importlib.import_module(CLASSES[name]), name)
    known = set(cls._get_param_names())
    for part in ("params", "settings"):
        added = {key: value for key, value in ADDED.items() if key in known}
        description[part] = added | description[part]
    unknown = sorted(set(description["params"]) ^ known | set(description["settings"]) ^ known)
    if unknown:
        raise ModelFileError(f"parameters differ from this midfea's: {', '.join(unknown)}")
    model = cls(**_typed(description["params"]))
    model.settings_ = _typed(description["settings"])
    check(model.settings_)
    if "selectivity" in model.settings_:
        model.selectivity_ = _layer(description, arrays)
        model.selectivity = model.settings_["selectivity"] = model.selectivity_ and clone(
            model.selectivity_
        )
    model.filters_ = _take(arrays, "filters")
    model.codebook_ = _take(arrays, "codebook")
    model.n_cells_ = int(description["n_cells"])
    model.projection_mean_ = _take(arrays, "projection_mean") if "projection_mean" in arrays else None
    model.projection_ = _projection(description, arrays)
    for key in NUMBERS[name]:
        value = description["numbers"][key]
        setattr(model, key, float("nan") if value is None else float(value))
    for key in ARRAYS[name]:
        setattr(model, key, _take(arrays, key))
    if name == "MidFeaClassifier":
        kind = {"U": str, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool, "O": object}
        model.classes_ = np.array(description["classes"], dtype=kind[description["classes_kind"]])
        model.network_, model.network_weights_ = None, None
        if "network_weights" in arrays:
            parts = {key: _take(arrays, f"network.{key}") for key in Network.names()}
            model.network_ = Network(**parts)
            model.network_weights_ = _take(arrays, "network_weights")
    if arrays:
        left = ", ".join(sorted(arrays))
        raise ModelFileError(
            f"holds arrays not known ({left}): saved by another version of midfea; train again"
        )
    _check_shapes(model)
    return model


def _typed(params: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples they were."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in params.items()}


def _take(arrays: dict[str, NDArray[Any]], key: str) -> NDArray[Any]:
    if key not in arrays:
        raise ModelFileError(
            f"the array {key!r} is missing: damaged, or saved by another version of midfea; train again"
        )
    array = arrays.pop(key)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"the array {key!r} holds NaN or infinity")
    return array


def _projection(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    if "projection_shape" not in description:
        return _take(arrays, "projection") if "projection" in arrays else None
    parts = [_take(arrays, f"projection.{part}") for part in ("data", "indices", "indptr")]
    shape = tuple(int(side) for side in description["projection_shape"])
    matrix = sp.csr_array(tuple(parts), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _layer(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """The neuron-selectivity layer, ready to transform."""
    if "selectivity" not in description:
        return None
    layer = NeuronSelectivity(**description["selectivity"])
    for key in LAYER_ARRAYS:
        setattr(layer, key, _take(arrays, f"selectivity.{key}"))
    layer.n_features_in_ = layer.W_.shape[1]
    return layer


def _check_shapes(model: Any) -> None:
    """Every array has the shape that the settings imply, so that nothing can fail later."""
    settings = model.settings_
    size = settings["filter_size"]
    chain = Chain(model.filters_, pairs=settings["pairs"], window=settings["window"])
    n_codes = model.n_cells_ * settings["n_words"]
    expected: dict[str, tuple[int, ...]] = {
        "filters_": (settings["n_filters"], size, size),
        "codebook_": (settings["n_words"], chain.n_components),
    }
    if model.projection_ is not None:
        expected["projection_"] = (n_codes, model.projection_.shape[1])
    if model.projection_mean_ is not None:
        expected["projection_mean_"] = (n_codes,)
    n_inputs = model._n_features_out
    layer = getattr(model, "selectivity_", None)
    if layer is not None:
        n_neurons = len(layer.W_)
        inputs = {"W_": (n_neurons, n_inputs), "D_": (n_inputs, n_neurons), "center_": (n_inputs,)}
        _require_shapes(layer, {**inputs, "b_": (n_neurons,)})
        n_inputs = n_neurons
    if hasattr(model, "classes_"):
        rows = 1 if len(model.classes_) == 2 else len(model.classes_)
        expected |= {"coef_": (rows, n_inputs), "intercept_": (rows,)}
    elif hasattr(model, "coef_"):
        expected["coef_"] = (n_inputs,)
    if getattr(model, "network_", None) is not None:
        expected["network_weights_"] = (3,)
        _require_shapes(model.network_, model.network_.expected_shapes(len(model.classes_)))
    _require_shapes(model, expected)


def _require_shapes(model: Any, expected: dict[str, tuple[int, ...]]) -> None:
    for key, shape in expected.items():
        if getattr(model, key).shape != shape:
            raise ModelFileError(
                f"{key.rstrip('_')} has shape {getattr(model, key).shape} where {shape} is due"
            )
