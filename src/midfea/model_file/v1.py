"""Format 1, read only: files written before the parts had names of their own.

Their images were rounded to 8 bits when they were reduced, and no validation record was kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from midfea.learning.head import LinearHead
from midfea.learning.network.head import NetworkHead
from midfea.learning.network.model import Network
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import ClassifierParts, RegressorParts
from midfea.learning.validation import no_validation
from midfea.model_file.saved import Arrays, SavedModel, tuples
from midfea.model_file.schema import ModelFileError, number, read_classes, take
from midfea.model_file.v2 import read_extractor

CLASS_NAMES = ("MidFea", "MidFeaClassifier", "MidFeaRegressor")
NS_NAMES = {"W": "W_", "b": "b_", "D": "D_", "class_responses": "selectivity_", "center": "center_"}
NETWORK_NAMES = {"logit_scale": "temperature", "view_shift": "moved"}


def read(description: dict[str, Any], arrays: Arrays) -> SavedModel:
    """The model of a file of this format; what is read is taken out of `arrays`."""
    name = description["class"]
    if name not in CLASS_NAMES:
        raise ModelFileError(f"holds a {name!r}, which this midfea does not know")
    params, settings = (_renamed(description[part]) for part in ("params", "settings"))
    if "selectivity" in description:
        layer = dict(description["selectivity"])
        layer["ridge"] = "auto" if layer.get("ridge") == "cv" else layer.get("ridge")
        params["selectivity"] = settings["selectivity"] = layer
    extractor = read_extractor(description, arrays, settings, rounded=True)
    saved = SavedModel(name, params, settings, extractor)
    numbers = description["numbers"]
    if name == "MidFea":
        return saved
    ns_layer = None
    if "selectivity" in description:
        ns_layer = NSLayer(**{new: take(arrays, f"selectivity.{old}") for new, old in NS_NAMES.items()})
    if name == "MidFeaRegressor":
        saved.regressor = RegressorParts(
            extractor,
            ns_layer,
            take(arrays, "coef_"),
            number(numbers, "intercept_", "intercept"),
            settings["regression"] == "expectation",
        )
        return saved
    classes = read_classes(description)
    saved.classifier = ClassifierParts(
        extractor=extractor,
        ns_layer=ns_layer,
        head=LinearHead(
            take(arrays, "coef_"),
            take(arrays, "intercept_"),
            number(numbers, "C_", "C"),
            number(numbers, "temperature_", "logit_scale"),
        ),
        network=_read_network(arrays),
        classes=classes,
        validation=no_validation(len(classes)),
    )
    return saved


def _renamed(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters under the names and values that they have now."""
    params = {("sharpness" if key == "softness" else key): value for key, value in params.items()}
    return tuples({key: "auto" if value == "cv" else value for key, value in params.items()})


def _read_network(arrays: Arrays) -> NetworkHead | None:
    if "network_weights" not in arrays:
        return None
    names = [name for name in Network.names() if name != "rounded"]
    layers = {name: take(arrays, f"network.{NETWORK_NAMES.get(name, name)}") for name in names}
    return NetworkHead(Network(**layers, rounded=np.array(True)), take(arrays, "network_weights"))
