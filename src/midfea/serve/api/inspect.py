"""/api/inspect: the predictions for validation images, labels that look wrong, what is in the model.

Labels are those of now: an image that was moved to another class counts there, a removed one does not
count. The predictions are those of the training.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import APIRouter

from midfea.estimators.classifier import MidFeaClassifier
from midfea.learning.interval import wilson
from midfea.report.answers import Answers
from midfea.report.curve import verdict
from midfea.serve.api.classify import png_address
from midfea.serve.api.current import LoadedModel, needs_record
from midfea.serve.api.images import ClassQuery, Limit, Offset
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.api.state import accuracy_json
from midfea.serve.errors import Clash, Missing
from midfea.serve.store.workspace import Workspace

router = APIRouter(prefix="/api/inspect", tags=["inspect"])
N_SUSPICIOUS = 200
N_PAIRS = 10
FILTER_SCALE = 6  # screen pixels for one pixel of a filter

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
        answers = _validation_answers(services.workspace, _refreshed(services))
        rows = np.flatnonzero((answers.labels == label) & (answers.predicted == predicted))
        rows = rows[np.argsort(-np.nan_to_num(answers.sureness[rows]), kind="stable")]
        page = rows[offset : offset + limit]
        return {
            "total": len(rows),
            "images": [_image(services.workspace, answers, int(i)) for i in page],
        }

    return await services.run("read", read)


def _refreshed(services: Services) -> LoadedModel:
    services.workspace.images.refresh()
    return services.current.need()


def _validation_answers(workspace: Workspace, loaded: LoadedModel) -> Answers:
    """Predictions for validation images with the labels of now; `names` are the images' ids."""
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
    return Answers(
        labels=np.array(labels, dtype=str),
        predicted=classes[np.asarray(validation.predicted)[rows]],
        classes=classes,
        probabilities=np.asarray(validation.probabilities)[rows].reshape(len(rows), -1),
        images=[],
        thumbnails=[],
        names=ids,
    )


def _overview(services: Services) -> Json:
    workspace, loaded = services.workspace, _refreshed(services)
    answers, record = _validation_answers(workspace, loaded), needs_record(loaded)
    layer = loaded.model.selectivity_
    return {
        "classes": answers.classes.tolist(),
        "confusion": answers.confusion.tolist(),
        "accuracy": accuracy_json(loaded),
        "suspicious": [
            _image(workspace, answers, int(i)) for i in answers.surely_wrong()[:N_SUSPICIOUS]
        ],
        "pairs": [
            {
                "class": str(answers.classes[pair.shown]),
                "predicted": str(answers.classes[pair.said]),
                "images": pair.images,
                "share": pair.share,
            }
            for pair in answers.confused_pairs(N_PAIRS)
        ],
        "per_class": _per_class(answers),
        "filters": _filters(loaded.model),
        "neurons": None if layer is None else {"means": np.asarray(layer.selectivity_).tolist()},
        "curve": record.curve and asdict(record.curve) | {"verdict": verdict(record.curve)},
    }


def _image(workspace: Workspace, answers: Answers, i: int) -> Json:
    return {
        "id": answers.names[i],
        "name": workspace.images.find(answers.names[i]).name,
        "class": str(answers.labels[i]),
        "predicted": str(answers.predicted[i]),
        "confidence": round(float(np.nan_to_num(answers.sureness[i])), 6),
    }


def _per_class(answers: Answers) -> list[Json]:
    """Recall with its interval, and precision."""
    rows = []
    for i, name in enumerate(answers.classes):
        images, predicted = int(answers.confusion[i].sum()), int(answers.confusion[:, i].sum())
        correct = int(answers.confusion[i, i])
        interval = wilson(correct, images)
        rows.append(
            {
                "class": str(name),
                "images": images,
                "correct": correct,
                "recall": correct / images if images else None,
                "low": interval.low if images else None,
                "high": interval.high if images else None,
                "precision": correct / predicted if predicted else None,
            }
        )
    return rows


def _filters(model: MidFeaClassifier) -> list[str]:
    """The filters, enlarged."""
    limit = float(np.abs(model.filters_).max())
    scaled = (255 * (model.filters_ + limit) / (2 * limit)).astype(np.uint8)
    block = np.ones((FILTER_SCALE, FILTER_SCALE), dtype=np.uint8)
    return [png_address(np.kron(pixels, block)) for pixels in scaled]
