"""Formats 2 to 4: the parts of a model by name, and the validation record."""

from __future__ import annotations

import math
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from midfea.engines import EngineSettings, Projection
from midfea.learning.codebook import make_chain
from midfea.learning.colour import ColourWords
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.head import LinearHead
from midfea.learning.network.head import NetworkHead
from midfea.learning.network.model import Network
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import ClassifierParts, RegressorParts
from midfea.learning.settings import ChainSettings
from midfea.learning.validation import Validation
from midfea.model_file.belonging import read_belonging, write_belonging
from midfea.model_file.saved import NS_ARRAYS, Arrays, SavedModel, take_matrix, tuples
from midfea.model_file.schema import (
    ModelFileError,
    number,
    read_classes,
    read_weights,
    take,
    written_classes,
    written_weights,
)

VALIDATION_ARRAYS = ("indices", "labels", "scores", "folds")


def write(saved: SavedModel) -> tuple[dict[str, Any], Arrays]:
    """Description and arrays of a file."""
    extractor = saved.extractor
    description = {
        "class": saved.class_name,
        "params": _written(saved.params),
        "settings": _written(saved.settings),
        "n_cells": int(extractor.n_cells),
        "rounded": bool(extractor.chain.rounded),
    }
    arrays: Arrays = {"filters": extractor.chain.filters, "codebook": extractor.chain.words}
    matrix, mean = extractor.projection.sparse, extractor.projection.mean
    if matrix is not None:
        description["projection_shape"] = list(matrix.shape)
        arrays |= {
            "projection.data": matrix.data,
            "projection.indices": matrix.indices,
            "projection.indptr": matrix.indptr,
        }
    if extractor.projection.dense is not None:
        arrays["projection"] = extractor.projection.dense
    if mean is not None:
        arrays["projection_mean"] = mean
    if extractor.colour is not None:
        arrays["colour.words"] = extractor.colour.words
        description["colour_bandwidth"] = _plain(extractor.colour.bandwidth)
    if saved.classifier is not None:
        _write_classifier(saved.classifier, description, arrays)
    if saved.regressor is not None:
        _write_layer(saved.regressor.ns_layer, arrays)
        arrays["coef"] = saved.regressor.coef
        description["intercept"] = _plain(saved.regressor.intercept)
    return description, arrays


def _write_classifier(parts: ClassifierParts, description: dict[str, Any], arrays: Arrays) -> None:
    description |= {
        "classes": written_classes(parts.classes),
        "classes_kind": parts.classes.dtype.kind,
        "C": _plain(parts.head.C),
        "logit_scale": _plain(parts.head.logit_scale),
        "validation": {
            "n_folds": int(parts.validation.n_folds),
            "n_groups": int(parts.validation.n_groups),
        },
    }
    _write_layer(parts.ns_layer, arrays)
    arrays |= {"coef": parts.head.coef, "intercept": parts.head.intercept}
    if parts.network is not None:
        arrays |= {f"network.{key}": value for key, value in parts.network.network.arrays().items()}
        arrays["network_weights"] = parts.network.weights
    write_belonging(parts.belonging, arrays)
    for name in VALIDATION_ARRAYS:
        array = getattr(parts.validation, name)
        small = np.float32 if array.dtype.kind == "f" else np.int32
        arrays[f"validation.{name}"] = array.astype(small)


def _write_layer(layer: NSLayer | None, arrays: Arrays) -> None:
    if layer is not None:
        arrays |= {f"ns_layer.{name}": getattr(layer, name) for name in NS_ARRAYS}


def _written(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON knows them."""
    given = {"class_weight": written_weights(params["class_weight"])} if "class_weight" in params else {}
    return {name: _plain(value) for name, value in (params | given).items()}


def _read_params(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters as they were."""
    given = {"class_weight": read_weights(params["class_weight"])} if "class_weight" in params else {}
    return tuples(params) | given


def _plain(value: Any) -> Any:
    """The value as JSON knows it; what JSON does not know (a RandomState, NaN) becomes None."""
    if isinstance(value, BaseEstimator):
        return _plain(value.get_params(deep=False))
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def read(description: dict[str, Any], arrays: Arrays) -> SavedModel:
    """The model of a file of this format; what is read is taken out of `arrays`."""
    settings = _read_params(description["settings"])
    extractor = read_extractor(description, arrays, settings, bool(description["rounded"]))
    saved = SavedModel(description["class"], _read_params(description["params"]), settings, extractor)
    if saved.class_name == "MidFeaClassifier":
        saved.classifier = _read_classifier(description, arrays, extractor)
    elif saved.class_name == "MidFeaRegressor":
        saved.regressor = RegressorParts(
            extractor,
            _read_layer(arrays),
            take(arrays, "coef"),
            number(description, "intercept"),
            settings["regression"] == "expectation",
        )
    elif saved.class_name != "MidFea":
        raise ModelFileError(f"holds a {saved.class_name!r}, which this midfea does not know")
    return saved


def read_extractor(
    description: dict[str, Any], arrays: Arrays, settings: dict[str, Any], rounded: bool
) -> FeatureExtractor:
    """The extractor that the settings describe."""
    chain_settings = ChainSettings(**{f.name: settings[f.name] for f in fields(ChainSettings)})
    chain_settings.check()
    for name in ("scales", "colour"):
        if settings[name] == "auto":
            raise ModelFileError(f'{name} must be numbers in a fitted model, got "auto"')
    chain = make_chain(
        chain_settings,
        take(arrays, "filters"),
        take(arrays, "codebook"),
        settings["scales"],
        rounded,
    )
    mean = take(arrays, "projection_mean") if "projection_mean" in arrays else None
    projection = Projection(take_matrix(description, arrays), mean)
    n_cells = number(description, "n_cells")
    colour = None
    if settings["colour"] is not None:
        bandwidth = number(description, "colour_bandwidth")
        colour = ColourWords(take(arrays, "colour.words"), bandwidth, float(settings["colour"]))
    max_side = settings["max_side"]
    return FeatureExtractor(chain, projection, n_cells, max_side, EngineSettings(), colour)


def _read_classifier(
    description: dict[str, Any], arrays: Arrays, extractor: FeatureExtractor
) -> ClassifierParts:
    network = None
    if "network_weights" in arrays:
        layers = {name: take(arrays, f"network.{name}") for name in Network.names()}
        network = NetworkHead(Network(**layers), take(arrays, "network_weights"))
    record = {name: take(arrays, f"validation.{name}") for name in VALIDATION_ARRAYS}
    return ClassifierParts(
        extractor=extractor,
        ns_layer=_read_layer(arrays),
        head=LinearHead(
            take(arrays, "coef"),
            take(arrays, "intercept"),
            number(description, "C"),
            number(description, "logit_scale"),
        ),
        network=network,
        classes=read_classes(description),
        validation=Validation(
            indices=record["indices"].astype(np.intp),
            labels=record["labels"].astype(np.intp),
            scores=record["scores"].astype(np.float64),
            folds=record["folds"].astype(np.intp),
            n_folds=number(description["validation"], "n_folds"),
            n_groups=number(description["validation"], "n_groups"),
        ),
        belonging=read_belonging(arrays),
    )


def _read_layer(arrays: Arrays) -> NSLayer | None:
    if "ns_layer.W" not in arrays:
        return None
    return NSLayer(**{name: take(arrays, f"ns_layer.{name}") for name in NS_ARRAYS})
