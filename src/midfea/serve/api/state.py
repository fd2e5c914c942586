"""/api/state: what the page shows at the top, and asks for again and again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from midfea.estimators.presets import NO_NETWORK
from midfea.extras import why_not
from midfea.learning.predictions import Predictions
from midfea.pictures import formats
from midfea.pictures.limits import ImageLimits
from midfea.serve.api import teach, transfer
from midfea.serve.api.classify import UNSURE_BELOW
from midfea.serve.api.current import LoadedModel
from midfea.serve.api.services import Services, ServicesDep
from midfea.serve.store import decoding, names
from midfea.view.charts import headlines

router = APIRouter(prefix="/api/state", tags=["state"])
LOAD_PATIENCE_SECONDS = 0.2  # for a model that is being loaded; then the state says so
LIMITS = {
    "file_bytes": decoding.MAX_FILE_BYTES,
    "request_bytes": teach.UPLOAD.max_bytes,
    "zip_bytes": transfer.ZIP_FILE.max_bytes,
    "model_bytes": transfer.MODEL_FILE.max_bytes,
    "pixels": ImageLimits.from_environment().max_pixels,
    "name_characters": names.MAX_CHARACTERS,
}

Json = dict[str, Any]


@router.get("")
async def get_state(services: ServicesDep) -> Json:
    """Classes, model, training under way, limits; `version` grows with every change."""
    return await services.run("read", _state, services)


def _state(services: Services) -> Json:
    workspace = services.workspace
    workspace.watch.refresh()
    job = services.trainer.progress  # before the model: when the job is done, the model is the new one
    job_json = None if job is None else job.json()
    loaded, problem, loading = services.current.state(LOAD_PATIENCE_SECONDS)
    model = None
    try:
        if loaded is not None:
            model = _model_json(loaded, workspace.images.digest())
            JSONResponse(model)  # a class may have a name that cannot be sent
    except Exception as error:  # whatever a file can be made to do: the rest of the page goes on
        model, problem = None, f"the model cannot be shown: {error!r:.200}"
    classes = workspace.images.classes()
    return {
        "version": workspace.images.version,
        "classes": [count._asdict() for count in classes],
        "images": sum(count.images for count in classes),
        "model": model,
        "model_error": problem,
        "model_loading": loading,
        "job": job_json,
        "workspace": str(workspace.root),
        "limits": LIMITS,
        "image_endings": sorted(formats.ENDINGS),
        "threshold": UNSURE_BELOW,
        "missing": {extra: reason for extra in ("torch", "onnx") if (reason := why_not(extra))},
    }


def _model_json(loaded: LoadedModel, digest: str) -> Json:
    record, settings = loaded.record, loaded.record.settings
    return {
        "id": loaded.id,
        "name": record.name,
        "trained": record.trained.isoformat(timespec="seconds"),
        "opened": record.opened,
        "classes": [str(name) for name in loaded.model.classes_],
        "images": len(record.ids) or None,
        "left_out": record.n_left_out,
        "series": record.series,
        "seconds": record.seconds,
        "accuracy": accuracy_json(loaded),
        "ms_per_image": record.ms_per_image,
        "stale": not record.opened and record.digest != digest,
        "preset": settings.preset if settings else loaded.model.preset,
        "fine_tuned": loaded.model.network_ is not None,
        "compared": record.compared and asdict(record.compared),
        "neurons": settings.neurons if settings else 0,
        "finetune": settings.finetune if settings else False,
        "note": NO_NETWORK if loaded.model.lacks_network else "",
    }


def accuracy_json(loaded: LoadedModel) -> Json | None:
    """Accuracy, if there are images enough to say, and 95 % interval; None without validation."""
    validation = loaded.validation
    if validation is None:
        return None
    return {
        "value": validation.interval.accuracy if validation.is_enough else None,
        "low": validation.interval.low,
        "high": validation.interval.high,
        "n": len(validation.indices),
        "how": validation.how,
        "drawing": headlines(
            validation.interval, Predictions.of_validation(validation, loaded.model.classes_)
        ),
    }
