"""/api/inspect: the predictions for validation images, labels that look wrong, what is in the model.

Labels are those of now: an image that was moved to another class counts there, a removed one does not
count. The predictions are those of the training.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter

from midfea.learning.predictions import Predictions
from midfea.serve.api.current import LoadedModel, needs_record
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.state import accuracy_json
from midfea.serve.api.teach import ClassQuery, Limit, Offset
from midfea.serve.errors import Clash, Missing
from midfea.serve.store.workspace import Workspace
from midfea.view import charts, confusion, inside

router = APIRouter(prefix="/api/inspect", tags=["inspect"])
N_SUSPICIOUS = 200
N_PAIRS = 10

Json = dict[str, Any]


@router.get("")
async def inspect(services: ServicesDep) -> Json:
    """Confusion, suspicious labels, recall and precision, learning curve; filters and neurons."""
    return await services.run("read", _overview, services)


@router.get("/cell")
async def inspect_cell(
    services: ServicesDep, label: ClassQuery, predicted: str, offset: Offset = 0, limit: Limit = 100
) -> Json:
    """The images behind a cell of the confusion matrix, the most confident first."""

    def read() -> Json:
        inspected = _inspected(services.workspace, _refreshed(services))
        rows = inspected.predictions.cell(label, predicted)
        page = rows[offset : offset + limit]
        return {
            "total": len(rows),
            "images": [_image(services.workspace, inspected, int(i)) for i in page],
        }

    return await services.run("read", read)


def _refreshed(services: Services) -> LoadedModel:
    services.workspace.watch.refresh()
    return services.current.need()


class Inspected(NamedTuple):
    """Predictions for validation images with the labels of now, and the images' ids."""

    predictions: Predictions
    ids: list[str]


def _inspected(workspace: Workspace, loaded: LoadedModel) -> Inspected:
    record, validation = needs_record(loaded), loaded.validation
    if validation is None:
        raise Clash("no image could be held out for validation: add images, and train again")
    classes = loaded.model.classes_.astype(str)
    ids, labels, rows = [], [], []
    for row, i in enumerate(validation.indices):
        try:
            label = workspace.images.find(record.ids[i]).label
        except Missing:
            continue
        if label in classes:
            ids.append(record.ids[i])
            labels.append(label)
            rows.append(row)
    predictions = Predictions(
        classes,
        np.searchsorted(classes, np.array(labels, dtype=str)),
        validation.predicted[rows],
        validation.probabilities[rows],
    )
    return Inspected(predictions, ids)


def _overview(services: Services) -> Json:
    """The numbers, and `parts` of the page as HTML."""
    workspace, loaded = services.workspace, _refreshed(services)
    inspected, curve = _inspected(workspace, loaded), needs_record(loaded).curve
    predictions = inspected.predictions
    classes = predictions.classes.tolist()
    layer = loaded.model.ns_layer_
    responses = None if layer is None else layer.class_responses
    parts = {
        "confusion": confusion.matrix(predictions),
        "pairs": confusion.pairs(predictions),
        "per_class": confusion.class_table(predictions),
        "filters": inside.filters(loaded.model.filters_),
    }
    if curve is not None:
        parts["curve"] = charts.learning_curve(curve)
    if responses is not None:
        parts["neurons"] = inside.neurons(responses, predictions.classes)
    return {
        "classes": classes,
        "confusion": predictions.confusion.tolist(),
        "accuracy": accuracy_json(loaded),
        "suspicious": [
            _image(workspace, inspected, int(i)) for i in predictions.mistakes()[:N_SUSPICIOUS]
        ],
        "pairs": [
            {
                "class": classes[pair.label],
                "predicted": classes[pair.predicted],
                "images": pair.images,
                "share": pair.share,
            }
            for pair in predictions.confused_pairs(N_PAIRS)
        ],
        "per_class": [
            {
                "class": row.name,
                "images": row.images,
                "correct": row.correct,
                "recall": row.recall,
                "low": row.interval.low if row.images else None,
                "high": row.interval.high if row.images else None,
                "precision": row.precision,
            }
            for row in predictions.per_class
        ],
        "neurons": None if responses is None else {"means": np.asarray(responses).tolist()},
        "curve": curve and asdict(curve) | {"verdict": charts.verdict(curve)},
        "parts": parts,
    }


def _image(workspace: Workspace, inspected: Inspected, i: int) -> Json:
    predictions, id = inspected.predictions, inspected.ids[i]
    return {
        "id": id,
        "name": workspace.images.find(id).name,
        "class": str(predictions.classes[predictions.labels[i]]),
        "predicted": str(predictions.classes[predictions.predicted[i]]),
        "confidence": round(float(predictions.confidence[i]), 6),
    }
