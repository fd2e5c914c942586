"""What was held out in training: who is taken for whom, which labels look wrong, what is inside.

Labels are today's: an image that was moved to another class counts there, one that was removed does not
count. The answers are those of the training.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from midfea.learning.interval import wilson
from midfea.learning.validation import LearningCurve
from midfea.report.answers import Answers
from midfea.report.curve import verdict
from midfea.serve.api.answering import png
from midfea.serve.api.current import Current, needs_results
from midfea.serve.errors import Missing
from midfea.serve.store.workspace import Workspace

N_SUSPICIOUS = 200
N_PAIRS = 10
FILTER_SCALE = 6  # pixels of the screen for one of a filter


def held_out(workspace: Workspace, current: Current) -> Answers:
    """Answers for images held out, with the labels that they have now; `names` are their ids."""
    results = needs_results(current)
    classes = np.array(results.about["classes"], dtype=str)
    known = set(results.about["classes"])
    ids, labels, rows = [], [], []
    for row, i in enumerate(results.held_out):
        try:
            label = workspace.find(results.ids[i]).label
        except Missing:
            continue
        if label in known:
            ids.append(results.ids[i])
            labels.append(label)
            rows.append(row)
    return Answers(
        labels=np.array(labels, dtype=str),
        predicted=classes[results.predicted[rows]],
        classes=classes,
        probabilities=results.probabilities[rows].astype(np.float64).reshape(len(rows), -1),
        images=[],
        thumbnails=[],
        names=ids,
    )


def overview(workspace: Workspace, current: Current, answers: Answers) -> dict[str, Any]:
    """All that the inspect screen shows at once."""
    about = needs_results(current).about
    layer = getattr(current.model, "selectivity_", None)
    return {
        "classes": about["classes"],
        "confusion": answers.confusion.tolist(),
        "accuracy": about["accuracy"],
        "suspicious": [_told(workspace, answers, i) for i in answers.surely_wrong()[:N_SUSPICIOUS]],
        "pairs": [
            {
                "class": str(answers.classes[pair.shown]),
                "answer": str(answers.classes[pair.said]),
                "images": pair.images,
                "share": pair.share,
            }
            for pair in answers.confused_pairs(N_PAIRS)
        ],
        "per_class": _per_class(answers),
        "filters": filter_pictures(current.model),
        "neurons": None if layer is None else {"means": np.asarray(layer.class_responses_).tolist()},
        "curve": about["curve"] | {"verdict": verdict(LearningCurve(**about["curve"]))},
    }


def cell(
    workspace: Workspace, answers: Answers, label: str, answer: str, offset: int, limit: int
) -> dict[str, Any]:
    """The images behind a cell of the confusion matrix, the surest first."""
    found = np.flatnonzero((answers.labels == label) & (answers.predicted == answer))
    found = found[np.argsort(-np.nan_to_num(answers.sureness[found]), kind="stable")]
    return {
        "total": len(found),
        "images": [_told(workspace, answers, i) for i in found[offset : offset + limit]],
    }


def _told(workspace: Workspace, answers: Answers, i: Any) -> dict[str, Any]:
    return {
        "id": answers.names[i],
        "name": workspace.find(answers.names[i]).name,
        "class": str(answers.labels[i]),
        "answer": str(answers.predicted[i]),
        "probability": round(float(np.nan_to_num(answers.sureness[i])), 6),
    }


def _per_class(answers: Answers) -> list[dict[str, Any]]:
    counts = answers.confusion
    rows = []
    for i, name in enumerate(answers.classes):
        images, told, right = int(counts[i].sum()), int(counts[:, i].sum()), int(counts[i, i])
        interval = wilson(right, images)
        rows.append(
            {
                "class": str(name),
                "images": images,
                "right": right,
                "accuracy": right / images if images else None,
                "low": interval.low if images else None,
                "high": interval.high if images else None,
                "precision": right / told if told else None,
            }
        )
    return rows


def filter_pictures(model: Any) -> list[str]:
    """The filters, enlarged."""
    limit = float(np.abs(model.filters_).max())
    scaled = (255 * (model.filters_ + limit) / (2 * limit)).astype(np.uint8)
    return [png(np.kron(f, np.ones((FILTER_SCALE, FILTER_SCALE), dtype=np.uint8))) for f in scaled]
