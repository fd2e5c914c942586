"""/api/train: start and cancel a training."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from midfea.serve.api.body import JSON_BODY
from midfea.serve.api.services import ServicesDep
from midfea.serve.training.record import Preset, TrainingSettings

router = APIRouter(prefix="/api/train", tags=["teach"])


class Training(BaseModel):
    """How to train. `neurons`: of a neuron-selectivity layer, 0 for none."""

    preset: Preset = "fast"
    neurons: Annotated[int, Field(ge=0, le=1000)] = 0
    finetune: bool = False


@router.post("", status_code=202)
@JSON_BODY
async def start_training(services: ServicesDep, body: Training) -> dict[str, Any]:
    """Start to train on all images. `job` of the state says how far it is."""
    settings = TrainingSettings(body.preset, body.neurons, body.finetune)
    return (await services.run("make", services.trainer.start, settings)).json()


@router.delete("")
async def cancel_training(services: ServicesDep) -> dict[str, Any]:
    """Cancel the training; the model does not change."""
    return (await services.run("write", services.trainer.cancel)).json()
