"""`SavedModel`: what a model file holds, whatever its version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
from numpy.typing import NDArray

from midfea.learning.extractor import FeatureExtractor
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import ClassifierParts, RegressorParts
from midfea.model_file.belonging import check_belonging
from midfea.model_file.schema import ModelFileError, number, take
from midfea.stages.pooling import divisions

Arrays = dict[str, NDArray[Any]]
NS_ARRAYS = ("W", "b", "D", "class_responses", "center")


@dataclass
class SavedModel:
    """A fitted estimator as plain values and parts.

    Attributes
    ----------
    class_name : of the estimator
    params : its constructor's parameters
    settings : the parameters in force, with the values that "auto" stands for
    extractor : the fitted feature extractor
    classifier, regressor : the fitted parts of the one or the other; None for features alone
    """

    class_name: str
    params: dict[str, Any]
    settings: dict[str, Any]
    extractor: FeatureExtractor
    classifier: ClassifierParts | None = None
    regressor: RegressorParts | None = None

    def check_shapes(self) -> None:
        """ModelFileError unless every array has the shape that the settings imply."""
        extractor, settings = self.extractor, self.settings
        chain, size = extractor.chain, settings["filter_size"]
        _require("filters", chain.filters, (settings["n_filters"], size, size))
        _require("codebook", chain.words, (settings["n_words"], chain.n_components))
        if not isinstance(chain.partition, dict):
            n_cells = sum(rows * columns for (rows, columns), _ in divisions(chain.partition))
            if n_cells != extractor.n_cells:
                raise ModelFileError(f"n_cells is {extractor.n_cells}, the partition has {n_cells}")
        if extractor.projection.matrix is not None:
            n_features = extractor.projection.matrix.shape[-1]
            _require("projection", extractor.projection.matrix, (extractor.n_codes, n_features))
        if extractor.projection.mean is not None:
            _require("projection_mean", extractor.projection.mean, (extractor.n_codes,))
        if extractor.colour is not None:
            _require("colour.words", extractor.colour.words, (max(len(extractor.colour.words), 1), 3))
        if self.regressor is not None:
            n_inputs = _check_layer(self.regressor.ns_layer, extractor.n_features)
            _require("coef", self.regressor.coef, (n_inputs,))
        if self.classifier is not None:
            _check_classifier(self.classifier)


def _check_classifier(parts: ClassifierParts) -> None:
    n_classes, n_inputs = len(parts.classes), _check_layer(parts.ns_layer, parts.extractor.n_features)
    rows = 1 if n_classes == 2 else n_classes
    _require("coef", parts.head.coef, (rows, n_inputs))
    _require("intercept", parts.head.intercept, (rows,))
    if parts.network is not None:
        _require("network_weights", parts.network.weights, (3,))
        for name, shape in parts.network.network.expected_shapes(n_classes).items():
            _require(name, getattr(parts.network.network, name), shape)
    validation = parts.validation
    n = len(validation.indices)
    _require("validation.indices", validation.indices, (n,))
    _require("validation.labels", validation.labels, (n,))
    _require("validation.folds", validation.folds, (n,))
    _require("validation.scores", validation.scores, (n, n_classes))
    if n and not (validation.labels.min() >= 0 and validation.labels.max() < n_classes):
        raise ModelFileError("validation.labels holds class numbers that do not exist")
    if parts.belonging is not None:
        check_belonging(parts.belonging, n_classes, parts.extractor.n_features)


def _check_layer(layer: NSLayer | None, n_features: int) -> int:
    """Inputs of what comes after the layer."""
    if layer is None:
        return n_features
    n_neurons = len(layer.W)
    _require("W", layer.W, (n_neurons, n_features))
    _require("D", layer.D, (n_features, n_neurons))
    _require("b", layer.b, (n_neurons,))
    _require("center", layer.center, (n_features,))
    _require("class_responses", layer.class_responses, (n_neurons, layer.class_responses.shape[-1]))
    return n_neurons


def _require(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ModelFileError(f"{name} has shape {array.shape} where {shape} is due")


def take_matrix(description: dict[str, Any], arrays: Arrays) -> Any:
    """The projection's matrix, sparse or dense; None if there is none."""
    if "projection_shape" not in description:
        return take(arrays, "projection") if "projection" in arrays else None
    parts = [take(arrays, f"projection.{part}") for part in ("data", "indices", "indptr")]
    sides = dict(zip(("rows", "columns"), description["projection_shape"], strict=True))
    shape = number(sides, "rows", "side"), number(sides, "columns", "side")
    data, _, indptr = parts
    # scipy does not look at the rows of a matrix that ends with none.
    if not indptr.size or indptr[-1] != len(data) or (indptr[:-1] > indptr[1:]).any():
        raise ModelFileError("projection.indptr must not fall, and end with the number of values")
    matrix = sp.csr_array(tuple(parts), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def tuples(params: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples they were."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in params.items()}
