"""/api/inspect: the predictions for validation images, labels that look wrong, what is in the model.

Labels are those of now: an image that was moved to another class counts there, a removed one does not
count. The predictions are those of the training.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter

from midfea.learning.predictions import Predictions
from midfea.serve.api.current import LoadedModel, needs_record
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.state import accuracy_json
from midfea.serve.api.teach import ClassQuery, Limit, Offset
from midfea.serve.errors import Clash
from midfea.serve.store.images import StoredImage
from midfea.view import charts, confusion, decisions, inside

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
        inspected = _inspected(services)
        rows = inspected.predictions.cell(label, predicted)
        page = rows[offset : offset + limit]
        return {"total": len(rows), "images": [_image(inspected, int(i)) for i in page]}

    return await services.run("read", read)


class Inspected(NamedTuple):
    """The model; its predictions for validation images with the labels of now; those images."""

    loaded: LoadedModel
    predictions: Predictions
    images: list[StoredImage]


def _inspected(services: Services) -> Inspected:
    services.workspace.watch.refresh()
    loaded = services.current.need()
    record, validation = needs_record(loaded), loaded.validation
    if validation is None:
        raise Clash("no image could be held out for validation: add images, and train again")
    classes = loaded.model.classes_.astype(str)
    ids = [record.ids[i] for i in validation.indices]
    present = services.workspace.images.present(ids)
    rows = [row for row, id in enumerate(ids) if id in present and present[id].label in classes]
    images = [present[ids[row]] for row in rows]
    labels = np.array([image.label for image in images], dtype=str)
    predictions = replace(
        Predictions.of_validation(validation, classes),
        labels=np.searchsorted(classes, labels),
        predicted=validation.predicted[rows],
        probabilities=validation.probabilities[rows],
    )
    return Inspected(loaded, predictions, images)


def _overview(services: Services) -> Json:
    """The numbers, and `parts` of the page as HTML."""
    inspected = _inspected(services)
    loaded, predictions, curve = inspected.loaded, inspected.predictions, inspected.loaded.record.curve
    classes = predictions.classes.tolist()
    layer = loaded.model.ns_layer_
    responses = None if layer is None else layer.class_responses
    parts = {
        "confusion": confusion.matrix(predictions),
        "pairs": confusion.pairs(predictions),
        "per_class": confusion.class_table(predictions),
        "decisions": decisions.promises(predictions),
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
        "suspicious": [_image(inspected, int(i)) for i in predictions.mistakes()[:N_SUSPICIOUS]],
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


def _image(inspected: Inspected, i: int) -> Json:
    predictions, image = inspected.predictions, inspected.images[i]
    return {
        "id": image.id,
        "name": image.name,
        "class": image.label,
        "predicted": str(predictions.classes[predictions.predicted[i]]),
        "confidence": round(float(predictions.confidence[i]), 6),
    }
