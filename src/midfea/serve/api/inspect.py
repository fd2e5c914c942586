"""/api/inspect: the predictions for validation images, where the model disagrees, what is in the model.

All numbers are those of the training: labels that have changed since, and images that are gone, count as
they were. Else a model would seem better with every label that is moved to what it predicts.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter

from midfea.learning.disagreements import find_disagreements
from midfea.learning.predictions import Predictions
from midfea.serve.api.current import LoadedModel, needs_record
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.state import accuracy_json
from midfea.serve.api.teach import ClassQuery, Limit, Offset
from midfea.serve.errors import Clash
from midfea.serve.store.images import StoredImage
from midfea.view import charts, confusion, decisions, inside

router = APIRouter(prefix="/api/inspect", tags=["inspect"])
N_PAIRS = 10

Json = dict[str, Any]


@router.get("")
async def inspect(services: ServicesDep) -> Json:
    """Confusion, disagreements, recall and precision, learning curve; filters and neurons."""
    return await services.run("read", _overview, services)


@router.get("/cell")
async def inspect_cell(
    services: ServicesDep, label: ClassQuery, predicted: str, offset: Offset = 0, limit: Limit = 100
) -> Json:
    """The images behind a cell of the confusion matrix, the most confident first."""

    def read() -> Json:
        inspected = _inspected(services)
        cell = inspected.predictions.cell(label, predicted)
        rows = [i for i in cell if inspected.ids[i] in inspected.present]
        page = rows[offset : offset + limit]
        return {"total": len(rows), "images": [_image(inspected, int(i)) for i in page]}

    return await services.run("read", read)


class Inspected(NamedTuple):
    """The model; its predictions for validation images with the labels of the training; those images."""

    loaded: LoadedModel
    predictions: Predictions
    ids: list[str]  # in the order of the predictions
    present: dict[str, StoredImage]  # those of them that are still there, as they are now

    def has_changed(self, row: int) -> bool:
        """Whether an image that is still there has another label since the training."""
        image = self.present.get(self.ids[row])
        label = self.predictions.classes[self.predictions.labels[row]]
        return image is not None and image.label != label


def _inspected(services: Services) -> Inspected:
    services.workspace.watch.refresh()
    loaded = services.current.need()
    record, validation = needs_record(loaded), loaded.validation
    if validation is None:
        raise Clash("no image could be held out for validation: add images, and train again")
    ids = [record.ids[i] for i in validation.indices]
    predictions = Predictions.of_validation(validation, loaded.model.classes_.astype(str))
    return Inspected(loaded, predictions, ids, services.workspace.images.present(ids))


def _disagreements(inspected: Inspected, checked: frozenset[str]) -> Json:
    """Images that nobody has checked or moved yet; or why none are listed."""
    validation = inspected.loaded.model.validation_
    rows, reason = find_disagreements(inspected.predictions, validation.interval)
    ids = inspected.ids
    present = [i for i in rows if ids[i] in inspected.present and not inspected.has_changed(i)]
    images = [_image(inspected, i) for i in present if ids[i] not in checked]
    return {"images": images, "reason": reason, "checked": len(present) - len(images)}


def _overview(services: Services) -> Json:
    """The numbers, and `parts` of the page as HTML."""
    inspected = _inspected(services)
    loaded, predictions, curve = inspected.loaded, inspected.predictions, inspected.loaded.record.curve
    classes, n_images = predictions.classes.tolist(), len(inspected.ids)
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
        "changed": sum(map(inspected.has_changed, range(n_images))),
        "gone": n_images - len(inspected.present),
        "disagreements": _disagreements(inspected, services.workspace.notes.checked),
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
    predictions, image = inspected.predictions, inspected.present[inspected.ids[i]]
    return {
        "id": image.id,
        "name": image.name,
        "class": image.label,
        "predicted": str(predictions.classes[predictions.predicted[i]]),
        "confidence": round(float(predictions.confidence[i]), 6),
    }
