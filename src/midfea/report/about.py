"""What a model file holds, gathered for `midfea info` and the model card."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from midfea.estimators.base import MidFeaBase
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.saved import load
from midfea.export.runtime import describe
from midfea.learning.interval import Interval
from midfea.learning.predictions import Predictions
from midfea.model_file import format_of

KINDS = {
    "MidFea": "Features of images",
    "MidFeaClassifier": "Classifier of whole images",
    "MidFeaRegressor": "Regressor of images",
}


@dataclass(frozen=True)
class Measured:
    """What the validation record of a classifier says."""

    predictions: Predictions
    interval: Interval  # of the accuracy
    how: str


@dataclass(frozen=True)
class About:
    """A model file in facts. What the file does not say is None.

    Attributes
    ----------
    name, n_bytes : of the file
    format : such as "midfea 3"
    midfea : version of the program that wrote it
    kind : class of the estimator
    classes : names, in the order of the probabilities
    preset : named settings, if any were chosen
    settings : all, as they are in force
    chosen : those that are not the defaults
    sizes : what was learned, in words
    min_side, max_side : pixels; smaller images are refused, larger ones are reduced
    colour : whether colours play a part
    measured : on images of the training, by models trained without them
    """

    name: str
    n_bytes: int
    format: str
    midfea: str | None
    kind: str
    classes: list[str]
    min_side: int
    max_side: int | None
    preset: str | None = None
    settings: dict[str, Any] | None = None
    chosen: dict[str, Any] | None = None
    sizes: str | None = None
    colour: bool | None = None
    measured: Measured | None = None

    @property
    def what(self) -> str:
        """The kind in words."""
        return KINDS[self.kind]

    @property
    def images(self) -> str:
        """What images it takes, in words."""
        reduced = "" if self.max_side is None else f", larger than {self.max_side} are reduced"
        colours = {None: "", True: "; colours play a part", False: "; colours are not used, only grey"}
        return f"{self.min_side} pixels or more on the shorter side{reduced}{colours[self.colour]}"

    def to_json(self) -> dict[str, Any]:
        """As JSON knows it."""
        return {
            "file": self.name,
            "bytes": self.n_bytes,
            "format": self.format,
            "midfea": self.midfea,
            "kind": self.kind,
            "classes": self.classes,
            "min_side": self.min_side,
            "max_side": self.max_side,
            "colour": self.colour,
            "preset": self.preset,
            "sizes": self.sizes,
            "settings": self.settings and json.loads(json.dumps(self.settings, default=str)),
            "validation": None if self.measured is None else _validation_json(self.measured),
        }


def _validation_json(measured: Measured) -> dict[str, Any]:
    predictions, interval = measured.predictions, measured.interval
    return {
        "how": measured.how,
        "images": len(predictions.labels),
        "accuracy": interval.accuracy,
        "interval": [interval.low, interval.high],
        "mean_recall": predictions.mean_recall,
        "mean_recall_interval": list(predictions.mean_recall_interval[1:]),
        "baseline": predictions.baseline and predictions.baseline._asdict(),
        "classes": [
            {
                "class": row.name,
                "images": row.images,
                "recall": row.recall,
                "interval": [row.interval.low, row.interval.high],
                "precision": row.precision,
            }
            for row in predictions.per_class
        ],
    }


def about(path: str | os.PathLike[str]) -> About:
    """The facts of a model file, `.midfea` or `.onnx`; ModelFileError if it cannot be read."""
    file = Path(path)
    return _about_onnx(file) if file.suffix == ".onnx" else _about_model(file)


def _about_onnx(file: Path) -> About:
    description = describe(file)
    return About(
        name=file.name,
        n_bytes=file.stat().st_size,
        format=f"onnx {description.format}",
        midfea=description.midfea,
        kind=description.estimator,
        classes=description.classes.astype(str).tolist(),
        min_side=description.min_side,
        max_side=description.max_side,
    )


def _about_model(file: Path) -> About:
    model = load(file)
    classifier = model if isinstance(model, MidFeaClassifier) else None
    return About(
        name=file.name,
        n_bytes=file.stat().st_size,
        format=f"midfea {format_of(file)}",
        midfea=None,  # the file does not say
        kind=type(model).__name__,
        classes=[] if classifier is None else classifier.classes_.astype(str).tolist(),
        min_side=model.min_side,
        max_side=model.max_side,
        preset=model.preset,
        settings=model.settings_,
        chosen=_chosen(model),
        sizes=_sizes(model),
        colour=uses_colour(model),
        measured=None if classifier is None else _measured(classifier),
    )


def _measured(model: MidFeaClassifier) -> Measured | None:
    validation = model.validation_
    if not len(validation):
        return None
    predictions = Predictions.of_validation(validation, model.classes_.astype(str))
    return Measured(predictions, validation.interval, validation.how)


def uses_colour(model: MidFeaBase) -> bool:
    """Whether a model sees colours: beside the chain, or by the network head."""
    if model.extractor_.colour is not None:
        return True
    network = model.network_ if isinstance(model, MidFeaClassifier) else None
    return network is not None and network.network.n_planes > 1


def _chosen(model: MidFeaBase) -> dict[str, Any]:
    """The settings in force that are not the defaults; what only says how to compute is left out."""
    computing = ("engine", "device", "precision", "n_jobs", "verbose", "keep_features", "preset")
    defaults = {field.name: field.default for field in fields(model)}
    in_force = model.settings_ | ({"C": model.C_} if isinstance(model, MidFeaClassifier) else {})
    return {
        name: value
        for name, value in in_force.items()
        if name not in computing and value not in (defaults.get(name), ())
    }


def _sizes(model: MidFeaBase) -> str:
    n_features = model.extractor_.n_features
    side = model.filters_.shape[-1]
    sizes = [
        f"{len(model.filters_)} filters of {side}x{side} pixels",
        f"{len(model.codebook_):,} words",
        f"{n_features:,} features",
    ]
    if isinstance(model, MidFeaClassifier):
        if model.ns_layer_ is not None:
            sizes.append(f"{len(model.ns_layer_.W):,} neurons")
        sizes.append("a linear SVM" if model.network_ is None else "a linear SVM joined with a network")
    return ", ".join(sizes)
