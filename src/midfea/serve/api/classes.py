"""/api/classes: make, rename and remove classes."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from midfea.serve.api.body import JSON_BODY
from midfea.serve.api.services import ServicesDep

router = APIRouter(prefix="/api/classes", tags=["teach"])


class ClassName(BaseModel):
    """The name of a class."""

    name: str


@router.post("", status_code=201)
@JSON_BODY
async def add_class(services: ServicesDep, body: ClassName) -> dict[str, str | int]:
    """Make a class."""
    name = await services.run("write", services.workspace.changes.add_class, body.name)
    return {"name": name, "images": 0}


@router.patch("/{name:path}")
@JSON_BODY
async def rename_class(services: ServicesDep, name: str, body: ClassName) -> dict[str, str]:
    """Rename a class."""
    return {
        "name": await services.run("write", services.workspace.changes.rename_class, name, body.name)
    }


@router.delete("/{name:path}")
async def remove_class(services: ServicesDep, name: str, with_images: bool = False) -> dict[str, str]:
    """Remove a class; one that has images only with `with_images`."""
    await services.run("write", services.workspace.changes.remove_class, name, with_images)
    return {"removed": name}
